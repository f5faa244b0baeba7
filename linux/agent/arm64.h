/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* The agent's instructions and system calls on arm64. */

static long call(long nr, long a, long b, long c, long d, long e, long f)
{
	register long x8 asm("x8") = nr, x0 asm("x0") = a, x1 asm("x1") = b, x2 asm("x2") = c;
	register long x3 asm("x3") = d, x4 asm("x4") = e, x5 asm("x5") = f;

	asm volatile("svc #0"
		     : "+r"(x0)
		     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
		     : "memory");
	return x0;
}

/* Send so many bytes to the host before the region is mapped (AGENT_SAYS). */
static void send(const char *at, long size)
{
	register long x0 asm("x0") = (long)at, x1 asm("x1") = size;

	asm volatile("svc #0xe9" : "+r"(x0) : "r"(x1) : "memory");
}

#include "generic.h"

#define SA_RESTORER 0x04000000
extern void restorer(void);
asm("restorer: mov x8, #139\n svc #0");

/* clone3(); the child continues in begin(). */
static long clone_to(struct clone_args *how, long slot)
{
	register long x8 asm("x8") = SYS_clone3, x0 asm("x0") = (long)how;
	register long x1 asm("x1") = sizeof(*how), x2 asm("x2") = slot;

	asm volatile("svc #0\n"
		     "cbnz x0, 1f\n"
		     "mov x29, xzr\n"
		     "mov x0, x2\n"
		     "bl begin\n"
		     "1:"
		     : "+r"(x0)
		     : "r"(x8), "r"(x1), "r"(x2)
		     : "x30", "memory");
	return x0;
}

/* The board stops where a block of code begins; who: a slot, or PAUSE_YIELD. */
static void pause(u64 who)
{
	register u64 x0 asm("x0") = who;

	asm volatile("b agent_pause\n"
		     ".globl agent_pause\n"
		     "agent_pause: nop"
		     :
		     : "r"(x0)
		     : "memory");
}

asm(".globl _start\n"
    "_start: mov x29, xzr\n"
    "	bl run");
