// SPDX-License-Identifier: GPL-2.0-or-later
/* A return probe of 2010: how long calls take, each with data of its own. */
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/ktime.h>
#include <linux/limits.h>
#include <linux/module.h>
#include <linux/sched.h>

static char func_name[NAME_MAX] = "do_fork";
module_param_string(func, func_name, NAME_MAX, S_IRUGO);
MODULE_PARM_DESC(func, "the function whose calls are timed");

struct of_call { ktime_t entry_stamp; };

static int on_entry(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct of_call *data;

	if (!current->mm)
		return 1; /* not those of kernel threads */
	data = (struct of_call *)ri->data;
	data->entry_stamp = ktime_get();
	return 0;
}

static int on_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	int value = regs_return_value(regs);
	struct of_call *data = (struct of_call *)ri->data;
	s64 delta = ktime_to_ns(ktime_sub(ktime_get(), data->entry_stamp));

	printk(KERN_INFO "%s gave %d and took %lld ns\n", func_name, value, (long long)delta);
	return 0;
}

static struct kretprobe probe = {
	.handler = on_return,
	.entry_handler = on_entry,
	.data_size = sizeof(struct of_call),
	.maxactive = 20,
};

static int __init kretprobe_init(void)
{
	int ret;

	probe.kp.symbol_name = func_name;
	ret = register_kretprobe(&probe);
	if (ret < 0) {
		printk(KERN_INFO "register_kretprobe says %d\n", ret);
		return -1;
	}
	printk(KERN_INFO "return probe at %s: %p\n", probe.kp.symbol_name, probe.kp.addr);
	return 0;
}

static void __exit kretprobe_exit(void)
{
	unregister_kretprobe(&probe);
	printk(KERN_INFO "return probe at %p is gone\n", probe.kp.addr);
	printk(KERN_INFO "%d calls of %s missed\n", probe.nmissed, probe.kp.symbol_name);
}

module_init(kretprobe_init);
module_exit(kretprobe_exit);
MODULE_LICENSE("GPL");
