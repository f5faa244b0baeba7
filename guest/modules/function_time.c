// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The time that a function takes: noted at its entry, with the instance of the return probe, and
 * read again when it returns. Parameter: symbol.
 */
#include <linux/kprobes.h>
#include <linux/ktime.h>
#include <linux/module.h>

static char *symbol = "vfs_read";
module_param(symbol, charp, 0444);
static unsigned long calls, longest;
static s64 total;

struct entry { ktime_t time; };

static int entered(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct entry *entry = (struct entry *)ri->data;

	entry->time = ktime_get();
	return 0;
}

static int returned(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct entry *entry = (struct entry *)ri->data;
	s64 ns = ktime_to_ns(ktime_sub(ktime_get(), entry->time));

	calls++;
	total += ns;
	if (ns > longest)
		longest = ns;
	return 0;
}

static struct kretprobe rp = {
	.entry_handler = entered,
	.handler = returned,
	.data_size = sizeof(struct entry),
	.maxactive = 20,
};

static int __init function_time_init(void)
{
	rp.kp.symbol_name = symbol;
	return register_kretprobe(&rp);
}

static void __exit function_time_exit(void)
{
	unregister_kretprobe(&rp);
	pr_info("function_time: %s: %lu calls, %lld ns on average, %lu ns at most, %d missed\n",
		symbol, calls, calls ? total / (s64)calls : 0, longest, rp.nmissed);
}

module_init(function_time_init);
module_exit(function_time_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Measures how long a function takes");
