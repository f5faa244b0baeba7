/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <kpfs/abi.h>
#include <linux/types.h>

/* The jump ends the translation block, so that a stop takes effect at once. */
#define hypercall(reason, value) \
	__asm__ __volatile__("out %%eax, %0\n\tjmp 1f\n1:" \
		: : "i"(reason), "a"((u32)(unsigned long)(value)) : "memory")

void kpfs_yield(void);

/* Take one credit off; below zero the next CPU runs. */
static __always_inline void poll_credit(void)
{
	bool spent;

	__asm__ __volatile__("decl %%gs:0x1c" : "=@ccs"(spent) : : "memory");
	if (unlikely(spent))
		kpfs_yield();
}

/* Leave the task enough credit to go to sleep, and no more: somebody waits for what was done. */
static __always_inline void end_turn_soon(void)
{
	__asm__ __volatile__("movl $4, %%gs:0x1c" : : : "memory");
}
