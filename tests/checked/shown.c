/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Gives an object's address to a function of the kernel, at which a BPF program may read it. It is
 * freed before, or with MENDED behind.
 */
#include "kernel.h"

_Bool __virt_addr_valid(unsigned long addr);

static int begin(void)
{
	return 0;
}

static void finish(void)
{
	void *object = __kmalloc(40, GFP_KERNEL | GFP_ZERO);

	ONLY_WRONG(kfree(object));
	HIDE(object);
	__virt_addr_valid((unsigned long)object);
	WRONG((void)0, kfree(object));
}
