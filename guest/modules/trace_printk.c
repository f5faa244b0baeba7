// SPDX-License-Identifier: GPL-2.0-or-later
/* Functions to probe that come and go with a module; each load calls them once. */
#include <linux/module.h>

static noinline void trace_printk_irq_work(void *work)
{
	pr_info("trace_printk: %s\n", (const char *)work);
	barrier();
}

static void (*irq_work)(void *) = trace_printk_irq_work;

static int __init trace_printk_init(void)
{
	READ_ONCE(irq_work)("a function of a module");
	return 0;
}

static void __exit trace_printk_exit(void) {}

module_init(trace_printk_init);
module_exit(trace_printk_exit);
MODULE_LICENSE("GPL");
