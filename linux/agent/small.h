/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* What armhf and i386 have in common: numbers of calls, and what compilers need for 32 bits. */

#include "first_calls.h"

#define SYS_mmap 192 /* mmap2: the offset in pages */
#define SYS_futex 240
#define SYS_sched_setaffinity 241
#define SYS_sched_getaffinity 242

#define MMAP(at, size, prot, flags, fd, offset) \
	call(SYS_mmap, at, size, prot, flags, fd, (offset) / PAGE)

#include "generic.h"
#include "memcpy.h"

/* The compiler calls it. */
__attribute__((used)) int __ctzdi2(u64 bits)
{
	return (u32)bits ? __builtin_ctz(bits) : 32 + __builtin_ctz(bits >> 32);
}

#define SA_SIGINFO 4
/* Two forms of frames are there: rt_sigreturn() returns from those with a siginfo. */
#define SA_RESTORER (0x04000000 | SA_SIGINFO)
extern void restorer(void);
