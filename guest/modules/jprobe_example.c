// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A jprobe: a function with the prototype of the probed one gets its arguments. What it
 * does to them changes its own copies alone.
 */
#include <linux/kprobes.h>
#include <linux/module.h>

struct open_how { u64 flags, mode, resolve; };

static long my_do_sys_openat2(int dfd, const char __user *filename, struct open_how *how)
{
	pr_info("jprobe_example: dfd = %d, flags = %#llx, mode = %#llo\n", dfd, how->flags,
		how->mode);
	dfd = -1;
	jprobe_return();
	return 0;
}

static struct jprobe jp = { .kp.symbol_name = "do_sys_openat2", .entry = my_do_sys_openat2 };

static int __init jprobe_example_init(void)
{
	return register_jprobe(&jp);
}

static void __exit jprobe_example_exit(void)
{
	unregister_jprobe(&jp);
}

module_init(jprobe_example_init);
module_exit(jprobe_example_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("A jprobe that shows the arguments of do_sys_openat2()");
