/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* The agent's instructions and system calls on x86-64. */

#define SYS_read 0
#define SYS_write 1
#define SYS_open 2
#define SYS_close 3
#define SYS_mmap 9
#define SYS_munmap 11
#define SYS_rt_sigaction 13
#define SYS_ioctl 16
#define SYS_sched_yield 24
#define SYS_dup2 33
#define SYS_exit 60
#define SYS_mkdir 83
#define SYS_chmod 90
#define SYS_setresuid 117
#define SYS_setresgid 119
#define SYS_capset 126
#define SYS_sched_setscheduler 144
#define SYS_prctl 157
#define SYS_mount 165
#define SYS_iopl 172
#define SYS_futex 202
#define SYS_sched_setaffinity 203
#define SYS_sched_getaffinity 204

#define PORTS(use) CALL(SYS_iopl, (use) ? 3 : 0, 0, 0) /* allow in and out */

static long call(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 asm("r10") = d, r8 asm("r8") = e, r9 asm("r9") = f;
	long ret;

	asm volatile("syscall"
		     : "=a"(ret)
		     : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
		     : "rcx", "r11", "memory");
	return ret;
}

/* Send a text to the host before the region is mapped. */
static void say(const char *text)
{
	for (; *text; text++)
		asm volatile("outb %0, $0xe9" : : "a"(*text));
}

/* Likewise so many bytes. */
static void send(const char *at, long size)
{
	asm volatile("rep outsb" : "+S"(at), "+c"(size) : "d"(0xe9) : "memory");
}

#define SA_RESTORER 0x04000000
extern void restorer(void);
asm("restorer: mov $15, %eax\n syscall");

/* clone3(); the child continues in begin(). */
static long clone_to(struct clone_args *how, long slot)
{
	long pid;

	asm volatile("syscall\n"
		     "test %%rax, %%rax\n"
		     "jnz 1f\n"
		     "xor %%ebp, %%ebp\n"
		     "mov %%rbx, %%rdi\n"
		     "call begin\n"
		     "1:"
		     : "=a"(pid)
		     : "a"(SYS_clone3), "D"(how), "S"(sizeof(*how)), "b"(slot)
		     : "rcx", "r11", "memory");
	return pid;
}

/* The board stops where a block of code begins; who: a slot, or PAUSE_YIELD. */
static void pause(u64 who)
{
	asm volatile("jmp agent_pause\n"
		     ".globl agent_pause\n"
		     "agent_pause: pause"
		     :
		     : "D"(who)
		     : "memory");
}

asm(".globl _start\n"
    "_start: xor %ebp, %ebp\n"
    "	and $-16, %rsp\n"
    "	call run");
