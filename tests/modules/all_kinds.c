// SPDX-License-Identifier: GPL-2.0-or-later
/* Every kind of handler at work in one call, faults included; a loop to call it. */
#include <linux/kprobes.h>
#include <linux/module.h>

#define TARGET __attribute__((__noipa__))
TARGET long busy(long x)
{
	return x + 1;
}
TARGET long inner(long x)
{
	return x * 2;
}
TARGET long outer(long x)
{
	return inner(x) + 1;
}

unsigned long pres, posts, faults, entries, returns, jumps;

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	pres++;
	return 0;
}
static void post(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	posts++;
}
static int faulty(struct kprobe *p, struct pt_regs *regs)
{
	__asm__ __volatile__("movq 0x10, %%rax" : : : "rax", "memory");
	return 0;
}
static int mend(struct kprobe *p, struct pt_regs *regs, int trapnr)
{
	faults++;
	regs->ip += 8;
	return 1;
}
static int entered(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	entries++;
	return 0;
}
static int returned(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	returns++;
	return 0;
}
static long jumped(long x)
{
	jumps++;
	jprobe_return();
	return 0;
}

static struct kprobe kps[] = {
	{ .symbol_name = "busy", .pre_handler = pre },
	{ .symbol_name = "busy", .pre_handler = pre, .post_handler = post },
	{ .symbol_name = "busy", .offset = 5, .pre_handler = pre, .post_handler = post },
	{ .symbol_name = "inner", .pre_handler = faulty, .fault_handler = mend },
};
static struct kretprobe rps[] = {
	{ .kp.symbol_name = "busy", .handler = returned },
	{ .kp.symbol_name = "outer",
	  .handler = returned,
	  .entry_handler = entered,
	  .data_size = 16 },
};
static struct jprobe jp = { .kp.symbol_name = "busy", .entry = jumped };

#define RUN(function)						\
	TARGET long run_##function(long n)			\
	{							\
		long sum = 0;					\
		while (n--)					\
			sum += function(n);			\
		return sum;					\
	}
RUN(busy)
RUN(outer)

static int __init all_init(void)
{
	int i, err = 0;

	for (i = 0; i < ARRAY_SIZE(kps) && !err; i++)
		err = register_kprobe(&kps[i]);
	for (i = 0; i < ARRAY_SIZE(rps) && !err; i++)
		err = register_kretprobe(&rps[i]);
	return err ?: register_jprobe(&jp);
}

static void __exit all_exit(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(kps); i++)
		unregister_kprobe(&kps[i]);
	for (i = 0; i < ARRAY_SIZE(rps); i++)
		unregister_kretprobe(&rps[i]);
	unregister_jprobe(&jp);
}

module_init(all_init);
module_exit(all_exit);
MODULE_LICENSE("GPL");
