// SPDX-License-Identifier: GPL-2.0-or-later
/* A kprobe as one wrote it in 2006, on i386: the address looked up, the registers' old names. */
#include <linux/config.h>
#include <linux/kallsyms.h>
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/sched.h>

static struct kprobe probe;

int before(struct kprobe *p, struct pt_regs *regs)
{
	printk("before: addr=0x%p, eip=%lx, eflags=0x%lx\n", p->addr, regs->eip, regs->eflags);
	dump_stack();
	return 0;
}

void after(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	printk("after: addr=0x%p, eflags=0x%lx\n", p->addr, regs->eflags);
}

int on_fault(struct kprobe *p, struct pt_regs *regs, int trapnr)
{
	printk("on_fault: addr=0x%p, trap %d\n", p->addr, trapnr);
	return 0;
}

int init_module(void)
{
	int ret;

	probe.pre_handler = before;
	probe.post_handler = after;
	probe.fault_handler = on_fault;
	probe.addr = (kprobe_opcode_t *)kallsyms_lookup_name("do_fork");
	if (!probe.addr) {
		printk("there is no %s\n", "do_fork");
		return -1;
	}
	ret = register_kprobe(&probe);
	if (ret < 0) {
		printk("register_kprobe says %d\n", ret);
		return -1;
	}
	printk("kprobe is there\n");
	return 0;
}

void cleanup_module(void)
{
	unregister_kprobe(&probe);
	printk("kprobe is gone\n");
}

MODULE_LICENSE("GPL");
