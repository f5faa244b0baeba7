// SPDX-License-Identifier: GPL-2.0-or-later
/* Functions for model_probes.c, in a module that can go. */
#include <linux/module.h>

#define TARGET __attribute__((__noipa__))
TARGET long first(long x)
{
	return x + 1;
}
TARGET long second(long x)
{
	return first(x) * 2;
}
EXPORT_SYMBOL_GPL(first);

static int __init targets_init(void)
{
	return 0;
}
static void __exit targets_exit(void) {}
module_init(targets_init);
module_exit(targets_exit);
MODULE_LICENSE("GPL");
