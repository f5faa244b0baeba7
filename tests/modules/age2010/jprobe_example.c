// SPDX-License-Identifier: GPL-2.0-or-later
/* A jprobe of 2010. */
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/module.h>

static long my_do_fork(unsigned long clone_flags, unsigned long stack_start, struct pt_regs *regs,
		       unsigned long stack_size, int __user *parent_tidptr,
		       int __user *child_tidptr)
{
	printk(KERN_INFO "jprobe: clone_flags = 0x%lx, stack_size = 0x%lx, regs = 0x%p\n",
	       clone_flags, stack_size, regs);
	jprobe_return();
	return 0;
}

static struct jprobe probe = {
	.entry = my_do_fork,
	.kp = {
		.symbol_name = "do_fork",
	},
};

static int __init jprobe_init(void)
{
	int ret = register_jprobe(&probe);

	if (ret < 0) {
		printk(KERN_INFO "register_jprobe says %d\n", ret);
		return -1;
	}
	printk(KERN_INFO "jprobe at %p, its entry %p\n", probe.kp.addr, probe.entry);
	return 0;
}

static void __exit jprobe_exit(void)
{
	unregister_jprobe(&probe);
	printk(KERN_INFO "jprobe at %p is gone\n", probe.kp.addr);
}

module_init(jprobe_init);
module_exit(jprobe_exit);
MODULE_LICENSE("GPL");
