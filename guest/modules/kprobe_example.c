// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A kprobe: prints which task is about to run a function, and its first argument.
 * Parameter: symbol, the function, "+" and an offset may follow in offset.
 */
#include <linux/kprobes.h>
#include <linux/module.h>

static char *symbol = "do_sys_openat2";
module_param(symbol, charp, 0444);
static unsigned int offset;
module_param(offset, uint, 0444);

static int before(struct kprobe *p, struct pt_regs *regs)
{
	pr_info("kprobe_example: %s[%d] at %s+%#x, arg1 = %lx\n", current->comm, current->pid,
		p->symbol_name, p->offset, regs_get_kernel_argument(regs, 0));
	return 0;
}

static void after(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	pr_info("kprobe_example: behind it, ip = %pS\n", (void *)regs->ip);
}

static struct kprobe kp = { .pre_handler = before, .post_handler = after };

static int __init kprobe_example_init(void)
{
	kp.symbol_name = symbol;
	kp.offset = offset;
	return register_kprobe(&kp);
}

static void __exit kprobe_example_exit(void)
{
	unregister_kprobe(&kp);
	pr_info("kprobe_example: %lu missed\n", kp.nmissed);
}

module_init(kprobe_example_init);
module_exit(kprobe_example_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("A kprobe with a handler before and one after the instruction");
