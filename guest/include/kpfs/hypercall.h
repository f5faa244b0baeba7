/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <kpfs/abi.h>
#include <linux/types.h>

/* The jump ends the translation block, so that a stop takes effect at once. */
#define hypercall(reason, value) \
	__asm__ __volatile__("out %%eax, %0\n\tjmp 1f\n1:" \
		: : "i"(reason), "a"((u32)(unsigned long)(value)) : "memory")

void kpfs_yield(void);

/* One credit less; below zero the next CPU runs. */
static __always_inline void poll_credit(void)
{
	bool spent;

	__asm__ __volatile__("decl %%gs:0x1c" : "=@ccs"(spent) : : "memory");
	if (unlikely(spent))
		kpfs_yield();
}

/* Somebody waits for what was done: there is credit for the task to sleep, and no more. */
static __always_inline void end_turn_soon(void)
{
	__asm__ __volatile__("movl $4, %%gs:0x1c" : : : "memory");
}
