// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A return probe: says what a function returns, and to where.
 * Parameter: symbol.
 */
#include <linux/kprobes.h>
#include <linux/module.h>

static char *symbol = "vfs_read";
module_param(symbol, charp, 0444);

static int returned(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	pr_info("kretprobe_example: %s = %ld for %s[%d], back to %pS\n", ri->rp->kp.symbol_name,
		regs_return_value(regs), ri->task->comm, ri->task->pid, (void *)ri->ret_addr);
	return 0;
}

static struct kretprobe rp = { .handler = returned };

static int __init kretprobe_example_init(void)
{
	rp.kp.symbol_name = symbol;
	return register_kretprobe(&rp);
}

static void __exit kretprobe_example_exit(void)
{
	unregister_kretprobe(&rp);
	pr_info("kretprobe_example: %d missed\n", rp.nmissed);
}

module_init(kretprobe_example_init);
module_exit(kretprobe_example_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("A return probe that shows the value");
