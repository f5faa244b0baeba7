// SPDX-License-Identifier: GPL-2.0-or-later
/* A kprobe as one wrote it in 2010: by the name, and for several processors. */
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/module.h>

static struct kprobe probe = { .symbol_name = "do_fork" };

static int before(struct kprobe *p, struct pt_regs *regs)
{
#ifdef CONFIG_X86
	printk(KERN_INFO "before: addr = 0x%p, ip = %lx, flags = 0x%lx\n", p->addr, regs->ip,
	       regs->flags);
#endif
#ifdef CONFIG_PPC
	printk(KERN_INFO "before: addr = 0x%p, nip = 0x%lx\n", p->addr, regs->nip);
#endif
	return 0;
}

static void after(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
#ifdef CONFIG_X86
	printk(KERN_INFO "after: addr = 0x%p, flags = 0x%lx\n", p->addr, regs->flags);
#endif
}

static int on_fault(struct kprobe *p, struct pt_regs *regs, int trapnr)
{
	printk(KERN_INFO "on_fault: addr = 0x%p, trap %d\n", p->addr, trapnr);
	return 0;
}

static int __init kprobe_init(void)
{
	int ret;

	probe.pre_handler = before;
	probe.post_handler = after;
	probe.fault_handler = on_fault;
	ret = register_kprobe(&probe);
	if (ret < 0) {
		printk(KERN_INFO "register_kprobe says %d\n", ret);
		return ret;
	}
	printk(KERN_INFO "kprobe at %p\n", probe.addr);
	return 0;
}

static void __exit kprobe_exit(void)
{
	unregister_kprobe(&probe);
	printk(KERN_INFO "kprobe at %p is gone\n", probe.addr);
}

module_init(kprobe_init);
module_exit(kprobe_exit);
MODULE_LICENSE("GPL");
