/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* The agent's instructions on s390x. */

#define NUMBER "1"
#define ARG_0 "2"
#define ARG_1 "3"
#define ARG_2 "4"
#define ARG_3 "5"
#define ARG_4 "6"
#define ARG_5 "7"
#define KEPT "8"
#define TRAP "svc 0"
#define CLOBBERS "memory", "cc"
#define RESULT a0
#define SAYS ".long 0x83230e90"
#define BEGIN                         \
	"	ltgr %%r2, %%r2\n"       \
	"	jne 1f\n"                \
	"	aghi %%r15, -160\n"      \
	"	lgr %%r2, %%r8\n"        \
	"	brasl %%r14, begin\n"    \
	"1:"
/* libunicorn begins no block behind a jump to there */
#define PAUSE "j agent_pause\nnopr\n" AT_PAUSE "nopr"
#define RETURN_FROM_SIGNAL "svc 173"

#include "frame.h"

/* The call takes a structure of its arguments. */
static long mmap(u64 at, u64 size, long prot, long flags, long fd, u64 offset)
{
	u64 arguments[6] = { at, size, prot, flags, fd, offset };

	return CALL(__NR_mmap, arguments, 0, 0);
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

asm(".globl _start\n"
    "_start: lgr %r2, %r15\n"
    "	aghi %r15, -160\n"
    "	brasl %r14, run");
