// SPDX-License-Identifier: GPL-2.0-or-later
/* A jprobe of 2006: its entry has the arguments that do_fork() had in those days. */
#include <linux/fs.h>
#include <linux/kallsyms.h>
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/uio.h>

long my_do_fork(unsigned long clone_flags, unsigned long stack_start, struct pt_regs *regs,
		unsigned long stack_size, int __user *parent_tidptr, int __user *child_tidptr)
{
	printk("jprobe: clone_flags=0x%lx, stack_size=0x%lx, regs=0x%p, of call %ld\n", clone_flags,
	       stack_size, regs, regs->orig_rax);
	jprobe_return();
	return 0;
}

static struct jprobe probe = { .entry = (kprobe_opcode_t *)my_do_fork };

int init_module(void)
{
	int ret;

	probe.kp.addr = (kprobe_opcode_t *)kallsyms_lookup_name("do_fork");
	if (!probe.kp.addr) {
		printk("there is no %s\n", "do_fork");
		return -1;
	}
	ret = register_jprobe(&probe);
	if (ret < 0) {
		printk("register_jprobe says %d\n", ret);
		return -1;
	}
	printk("jprobe at %p, its entry %p\n", probe.kp.addr, probe.entry);
	return 0;
}

void cleanup_module(void)
{
	unregister_jprobe(&probe);
	printk("jprobe is gone\n");
}

MODULE_LICENSE("GPL");
