/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* The agent's instructions and system calls on armhf. */

static long call(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r7 asm("r7") = nr, r0 asm("r0") = a, r1 asm("r1") = b, r2 asm("r2") = c;
	register long r3 asm("r3") = d, r4 asm("r4") = e, r5 asm("r5") = f;

	asm volatile("svc #0"
		     : "+r"(r0)
		     : "r"(r7), "r"(r1), "r"(r2), "r"(r3), "r"(r4), "r"(r5)
		     : "memory");
	return r0;
}

/* Send so many bytes to the host before the region is mapped (AGENT_SAYS). */
static void send(const char *at, long size)
{
	register long r0 asm("r0") = (long)at, r1 asm("r1") = size;

	asm volatile("svc #0xe9" : "+r"(r0) : "r"(r1) : "memory");
}

#include "small.h"

asm("restorer: mov r7, #173\n svc #0");

/* clone3(); the child continues in begin(). */
static long clone_to(struct clone_args *how, long slot)
{
	register long r7 asm("r7") = SYS_clone3, r0 asm("r0") = (long)how;
	register long r1 asm("r1") = sizeof(*how), r2 asm("r2") = slot;

	asm volatile("svc #0\n"
		     "	cmp r0, #0\n"
		     "	bne 1f\n"
		     "	mov r0, r2\n"
		     "	bl begin\n"
		     "1:"
		     : "+r"(r0)
		     : "r"(r7), "r"(r1), "r"(r2)
		     : "lr", "cc", "memory");
	return r0;
}

/* The board stops where a block of code begins; who: a slot, or PAUSE_YIELD. */
static void pause(u32 who)
{
	register u32 r0 asm("r0") = who;

	asm volatile("b agent_pause\n"
		     ".globl agent_pause\n"
		     "agent_pause: nop"
		     :
		     : "r"(r0)
		     : "memory");
}

asm(".globl _start\n"
    "_start: bic sp, sp, #7\n"
    "	bl run");
