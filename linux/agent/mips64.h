/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * The agent's instructions and system calls on mips64el (n64), whose numbers of everything are its
 * own. Results are those of other architectures: the host knows no others.
 */
#include "errors_mips.h"

static long call(long nr, long a, long b, long c, long d, long e, long f)
{
	register long v0 asm("$2") = nr, a0 asm("$4") = a, a1 asm("$5") = b, a2 asm("$6") = c;
	register long a3 asm("$7") = d, a4 asm("$8") = e, a5 asm("$9") = f;

	asm volatile("syscall"
		     : "+r"(v0), "+r"(a3)
		     : "r"(a0), "r"(a1), "r"(a2), "r"(a4), "r"(a5)
		     : "$1", "$3", "$10", "$11", "$12", "$13", "$14", "$15", "$24", "$25", "hi",
		       "lo", "memory");
	return a3 ? -known_error(v0) : v0;
}

/* Send so many bytes to the host before the region is mapped (AGENT_SAYS). */
static void send(const char *at, long size)
{
	register long a0 asm("$4") = (long)at, a1 asm("$5") = size;

	asm volatile(".word 0x7c00003f" : : "r"(a0), "r"(a1) : "memory");
}

#define SYS_read 5000
#define SYS_write 5001
#define SYS_open 5002
#define SYS_close 5003
#define SYS_mmap 5009
#define SYS_munmap 5011
#define SYS_rt_sigaction 5013
#define SYS_ioctl 5015
#define SYS_sched_yield 5023
#define SYS_dup2 5032
#define SYS_exit 5058
#define SYS_mkdir 5081
#define SYS_chmod 5088
#define SYS_setresuid 5115
#define SYS_setresgid 5117
#define SYS_capset 5124
#define SYS_sched_setscheduler 5141
#define SYS_prctl 5153
#define SYS_mount 5160
#define SYS_futex 5194
#define SYS_sched_setaffinity 5195
#define SYS_sched_getaffinity 5196
#undef SYS_clone3
#define SYS_clone3 5435

#define O_SYNC 0x4010
#define MAP_ANONYMOUS 0x800
#define SIGCHLD 18
#define SIGUSR1 16
#define SIGXFSZ 31
#define NR_SIGNALS 128
#define RNDADDENTROPY 0x80085203

#include "generic.h"
#include "memcpy.h"

/* clone3(); the child continues in begin(). */
static long clone_to(struct clone_args *how, long slot)
{
	register long v0 asm("$2") = SYS_clone3, a0 asm("$4") = (long)how;
	register long a1 asm("$5") = sizeof(*how), a3 asm("$7"), s0 asm("$16") = slot;

	asm volatile(".set noreorder\n"
		     "	syscall\n"
		     "	bnez $7, 1f\n"
		     "	 nop\n"
		     "	bnez $2, 1f\n"
		     "	 nop\n"
		     "	move $4, $16\n"
		     "	jal begin\n"
		     "	 nop\n"
		     "1:\n"
		     "	.set reorder"
		     : "+r"(v0), "=r"(a3)
		     : "r"(a0), "r"(a1), "r"(s0)
		     : "$1", "$3", "$6", "$8", "$9", "$10", "$11", "$12", "$13", "$14", "$15",
		       "$24", "$25", "$31", "hi", "lo", "memory");
	return a3 ? -known_error(v0) : v0;
}

/* The board stops where a block of code begins; who: a slot, or PAUSE_YIELD. */
static void pause(u64 who)
{
	register u64 a0 asm("$4") = who;

	asm volatile(".set noreorder\n"
		     "	b agent_pause\n"
		     "	 nop\n"
		     ".globl agent_pause\n"
		     "agent_pause: nop\n"
		     "	.set reorder"
		     :
		     : "r"(a0)
		     : "memory");
}

asm(".globl _start\n"
    ".set noreorder\n"
    "_start: jal run\n"
    "	 nop\n"
    ".set reorder");
