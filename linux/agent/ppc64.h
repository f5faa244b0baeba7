/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* The agent's instructions and system calls on ppc64el. */

static long call(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r0 asm("0") = nr, r3 asm("3") = a, r4 asm("4") = b, r5 asm("5") = c;
	register long r6 asm("6") = d, r7 asm("7") = e, r8 asm("8") = f;

	asm volatile("sc\n"
		     "	bns+ 1f\n"
		     "	neg 3, 3\n"
		     "1:"
		     : "+r"(r0), "+r"(r3), "+r"(r4), "+r"(r5), "+r"(r6), "+r"(r7), "+r"(r8)
		     :
		     : "9", "10", "11", "12", "cr0", "ctr", "xer", "memory");
	return r3;
}

/* Send so many bytes to the host before the region is mapped (AGENT_SAYS). */
static void send(const char *at, long size)
{
	register long r3 asm("3") = (long)at, r4 asm("4") = size;

	asm volatile(".long 0xe90" : : "r"(r3), "r"(r4) : "memory");
}

#define SYS_mmap 90
#define SYS_setresuid 164
#define SYS_setresgid 169
#define SYS_prctl 171
#define SYS_rt_sigaction 173
#define SYS_capset 184
#define SYS_futex 221
#define SYS_sched_setaffinity 222
#define SYS_sched_getaffinity 223

#define RNDADDENTROPY 0x80085203

#include "first_calls.h"
#include "generic.h"
#include "memcpy.h"

/* clone3(); the child continues in begin(). */
static long clone_to(struct clone_args *how, long slot)
{
	register long r0 asm("0") = SYS_clone3, r3 asm("3") = (long)how;
	register long r4 asm("4") = sizeof(*how), r14 asm("14") = slot;

	asm volatile("sc\n"
		     "	bns+ 1f\n"
		     "	neg 3, 3\n"
		     "1:	cmpdi 3, 0\n"
		     "	bne 2f\n"
		     "	mr 3, 14\n"
		     "	stdu 3, -64(1)\n"
		     "	bl begin\n"
		     "	nop\n"
		     "2:"
		     : "+r"(r0), "+r"(r3), "+r"(r4)
		     : "r"(r14)
		     : "5", "6", "7", "8", "9", "10", "11", "12", "lr", "cr0", "ctr", "xer",
		       "memory");
	return r3;
}

/* The board stops where a block of code begins; who: a slot, or PAUSE_YIELD. */
static void pause(u64 who)
{
	register u64 r3 asm("3") = who;

	asm volatile("b agent_pause\n"
		     ".globl agent_pause\n"
		     "agent_pause: nop"
		     :
		     : "r"(r3)
		     : "memory");
}

asm(".globl _start\n"
    "_start: bcl 20, 31, 1f\n"
    "1:	mflr 2\n"
    "	addis 2, 2, (.TOC. - 1b)@ha\n"
    "	addi 2, 2, (.TOC. - 1b)@l\n"
    "	stdu 1, -64(1)\n"
    "	bl run\n"
    "	nop");
