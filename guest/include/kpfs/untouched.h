/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * Strings of a call that its process has never touched: handlers of probes, which may not sleep,
 * cannot read them until the kernel has. mirror.c says where they are.
 */
#include <linux/preempt.h>
#include <linux/sched.h>

static __always_inline bool user_untouched(const void __user *src, size_t size)
{
	unsigned long addr = (unsigned long)src;

	return addr < current->untouched.to && addr + size > current->untouched.from;
}

/* Bring in what is there, if it is yet to be, with the call's other strings. Handlers cannot. */
static __always_inline void touch_user(const void __user *src, size_t size)
{
	if (user_untouched(src, size) && !in_atomic())
		current->untouched.to = 0;
}
