// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Fault injection: a function returns an error instead of being run.
 * Parameters: symbol; error, what it returns; times, how often (0: always); pid, for whom
 * (0: for all).
 */
#include <linux/kprobes.h>
#include <linux/module.h>

static char *symbol = "do_sys_openat2";
module_param(symbol, charp, 0444);
static long error = -EIO;
module_param(error, long, 0644);
static unsigned int times = 1;
module_param(times, uint, 0644);
static int pid;
module_param(pid, int, 0644);
static unsigned int injected;

/* At its entry a function has its return address on top of the stack: do what ret does. */
static int instead(struct kprobe *p, struct pt_regs *regs)
{
	if ((pid && current->pid != pid) || (times && injected >= times))
		return 0;
	injected++;
	regs_set_return_value(regs, error);
	instruction_pointer_set(regs, *(unsigned long *)regs->sp);
	regs->sp += sizeof(long);
	return 1;
}

static struct kprobe kp = { .pre_handler = instead };

static int __init fault_injection_init(void)
{
	kp.symbol_name = symbol;
	return register_kprobe(&kp);
}

static void __exit fault_injection_exit(void)
{
	unregister_kprobe(&kp);
	pr_info("fault_injection: %s failed %u times\n", symbol, injected);
}

module_init(fault_injection_init);
module_exit(fault_injection_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Lets a function fail");
