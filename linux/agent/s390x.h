/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* The agent's instructions and system calls on s390x. */

static long call(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r1 asm("1") = nr, r2 asm("2") = a, r3 asm("3") = b, r4 asm("4") = c;
	register long r5 asm("5") = d, r6 asm("6") = e, r7 asm("7") = f;

	asm volatile("svc 0"
		     : "+d"(r2)
		     : "d"(r1), "d"(r3), "d"(r4), "d"(r5), "d"(r6), "d"(r7)
		     : "memory", "cc");
	return r2;
}

/* Send so many bytes to the host before the region is mapped (AGENT_SAYS). */
static void send(const char *at, long size)
{
	register long r2 asm("2") = (long)at, r3 asm("3") = size;

	asm volatile(".long 0x83230e90" : : "d"(r2), "d"(r3) : "memory");
}

#include "first_calls.h"

#define SYS_mmap 90
#define SYS_futex 238
#define SYS_sched_setaffinity 239
#define SYS_sched_getaffinity 240

#include "generic.h"

/* The call takes a structure of its arguments. */
static long mmap(u64 at, u64 size, long prot, long flags, long fd, u64 offset)
{
	u64 arguments[6] = { at, size, prot, flags, fd, offset };

	return CALL(SYS_mmap, arguments, 0, 0);
}

#define MMAP mmap

/*
 * Nobody may map memory that is not the kernel's. So the addresses are only reserved, without any
 * right to them, and the board translates them for this address space (AGENT_SHARES).
 */
static long share(u64 size)
{
	long at = mmap(REGION_BASE, size, 0, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, -1, 0);

	if (at > 0)
		asm volatile(".long 0x83230e91" : : : "memory");
	return at;
}

#define SHARE share

#define SA_SIGINFO 4
/* Two forms of frames are there: rt_sigreturn() returns from those with a siginfo. */
#define SA_RESTORER (0x04000000 | SA_SIGINFO)
extern void restorer(void);
asm("restorer: svc 173");

/* clone3(); the child continues in begin(). */
static long clone_to(struct clone_args *how, long slot)
{
	register long r1 asm("1") = SYS_clone3, r2 asm("2") = (long)how;
	register long r3 asm("3") = sizeof(*how), r8 asm("8") = slot;

	asm volatile("svc 0\n"
		     "	ltgr %%r2, %%r2\n"
		     "	jne 1f\n"
		     "	aghi %%r15, -160\n"
		     "	lgr %%r2, %%r8\n"
		     "	brasl %%r14, begin\n"
		     "1:"
		     : "+d"(r2)
		     : "d"(r1), "d"(r3), "d"(r8)
		     : "14", "memory", "cc");
	return r2;
}

/* The board stops where a block of code begins; who: a slot, or PAUSE_YIELD. */
static void pause(u64 who)
{
	register u64 r2 asm("2") = who;

	asm volatile("j agent_pause\n"
		     "nopr\n" /* libunicorn begins no block behind a jump to there */
		     ".globl agent_pause\n"
		     "agent_pause: nopr"
		     :
		     : "d"(r2)
		     : "memory");
}

asm(".globl _start\n"
    "_start: lgr %r2, %r15\n"
    "	aghi %r15, -160\n"
    "	brasl %r14, run");
