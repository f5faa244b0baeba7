// SPDX-License-Identifier: GPL-2.0-or-later
/* A return probe of 2006: says which opens fail. */
#include <linux/kallsyms.h>
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/module.h>

static const char *probed = "sys_open";

static int on_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	int value = (int)regs->eax;

	if (value < 0)
		printk("%s gives %d\n", probed, value);
	return 0;
}

static struct kretprobe probe = { .handler = on_return, .maxactive = 20 };

int init_module(void)
{
	int ret;

	probe.kp.addr = (kprobe_opcode_t *)kallsyms_lookup_name(probed);
	if (!probe.kp.addr) {
		printk("there is no %s\n", probed);
		return -1;
	}
	ret = register_kretprobe(&probe);
	if (ret < 0) {
		printk("register_kretprobe says %d\n", ret);
		return -1;
	}
	printk("return probe at %p\n", probe.kp.addr);
	return 0;
}

void cleanup_module(void)
{
	unregister_kretprobe(&probe);
	printk("return probe is gone\n");
	printk("%d calls of %s missed\n", probe.nmissed, probed);
}

MODULE_LICENSE("GPL");
