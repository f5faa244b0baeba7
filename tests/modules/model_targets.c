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

MODULE_LICENSE("GPL");
