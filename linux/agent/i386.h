/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* The agent's instructions and system calls on i386. */

/* The sixth argument goes into the register that functions find their variables by. */
static long call(long nr, long a, long b, long c, long d, long e, long f)
{
	long ret;

	asm volatile("pushl %7\n"
		     "pushl %%ebp\n"
		     "movl 4(%%esp), %%ebp\n"
		     "int $0x80\n"
		     "popl %%ebp\n"
		     "addl $4, %%esp"
		     : "=a"(ret)
		     : "a"(nr), "b"(a), "c"(b), "d"(c), "S"(d), "D"(e), "m"(f)
		     : "memory");
	return ret;
}

/* Send so many bytes to the host before the region is mapped. */
static void send(const char *at, long size)
{
	asm volatile("rep outsb" : "+S"(at), "+c"(size) : "d"(0xe9) : "memory");
}

#define SYS_iopl 110
#define PORTS(use) CALL(SYS_iopl, (use) ? 3 : 0, 0, 0) /* allow in and out */

#include "small.h"

asm("restorer: movl $173, %eax\n int $0x80");

/* clone3(); the child continues in begin(). */
static long clone_to(struct clone_args *how, long slot)
{
	long pid;

	asm volatile("int $0x80\n"
		     "testl %%eax, %%eax\n"
		     "jnz 1f\n"
		     "xorl %%ebp, %%ebp\n"
		     "pushl %%edx\n"
		     "call begin\n"
		     "1:"
		     : "=a"(pid)
		     : "a"(SYS_clone3), "b"(how), "c"(sizeof(*how)), "d"(slot)
		     : "memory");
	return pid;
}

/* The board stops where a block of code begins; who: a slot, or PAUSE_YIELD. */
static void pause(u32 who)
{
	asm volatile("jmp agent_pause\n"
		     ".globl agent_pause\n"
		     "agent_pause: pause"
		     :
		     : "a"(who)
		     : "memory");
}

asm(".globl _start\n"
    "_start: xorl %ebp, %ebp\n"
    "	andl $-16, %esp\n"
    "	call run");
