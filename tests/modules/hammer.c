// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Probes of every kind, each at a function of its own and all of them at one; a thread on
 * each CPU calls these functions as often as the parameter says. All is over when it is
 * loaded: what the handlers have counted is then compared with the number of calls.
 */
#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/kprobes.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/sched.h>

#define TARGET(name) __attribute__((__noipa__)) long name(long x) { return (x ^ 0x1234567) * 3 + 1; }
TARGET(at_entry)
TARGET(inside)
TARGET(stepped)
TARGET(returning)
TARGET(jumping)
TARGET(all_at_once)

atomic_t entry_hits, inside_hits, stepped_hits, stepped_posts;
atomic_t return_entries, return_hits, jump_hits, all_hits, all_posts, all_returns, all_jumps;
int calls;  /* of each function, by all threads */
long wrong; /* values that a probed function has returned */
static int turns = 1000;
module_param(turns, int, 0);

#define COUNTS(name, count) \
	static int name(struct kprobe *p, struct pt_regs *regs) { atomic_inc(&count); return 0; }
#define COUNTS_POST(name, count) \
	static void name(struct kprobe *p, struct pt_regs *regs, unsigned long flags) { atomic_inc(&count); }
#define COUNTS_RETURN(name, count) \
	static int name(struct kretprobe_instance *ri, struct pt_regs *regs) { atomic_inc(&count); return 0; }
#define COUNTS_JUMP(name, count) \
	static long name(long x) { atomic_inc(&count); jprobe_return(); return 0; }

COUNTS(entry_pre, entry_hits)
COUNTS(inside_pre, inside_hits)
COUNTS(stepped_pre, stepped_hits)
COUNTS_POST(stepped_post, stepped_posts)
COUNTS_RETURN(return_entry, return_entries)
COUNTS_RETURN(return_handler, return_hits)
COUNTS_JUMP(jump_entry, jump_hits)
COUNTS(all_pre, all_hits)
COUNTS_POST(all_post, all_posts)
COUNTS_RETURN(all_return, all_returns)
COUNTS_JUMP(all_jump, all_jumps)

static struct kprobe kps[] = {
	{ .symbol_name = "at_entry", .pre_handler = entry_pre },
	{ .symbol_name = "inside", .offset = 5, .pre_handler = inside_pre },
	{ .symbol_name = "stepped",
	  .offset = 5,
	  .pre_handler = stepped_pre,
	  .post_handler = stepped_post },
	{ .symbol_name = "all_at_once", .pre_handler = all_pre },
	{ .symbol_name = "all_at_once", .pre_handler = all_pre, .post_handler = all_post },
	{ .symbol_name = "all_at_once", .offset = 5, .pre_handler = all_pre },
};
struct kretprobe rps[] = {
	{ .kp.symbol_name = "returning",
	  .handler = return_handler,
	  .entry_handler = return_entry,
	  .data_size = 16,
	  .maxactive = 64 },
	{ .kp.symbol_name = "all_at_once", .handler = all_return, .maxactive = 64 },
};
static struct jprobe jps[] = {
	{ .kp.symbol_name = "jumping", .entry = jump_entry },
	{ .kp.symbol_name = "all_at_once", .entry = all_jump },
};

static DECLARE_COMPLETION(done);
static atomic_t running;

static int hammer(void *unused)
{
	long expected, bad = 0;
	int i;

	for (i = 0; i < turns; i++) {
		expected = (i ^ 0x1234567) * 3L + 1;
		bad += at_entry(i) != expected;
		bad += inside(i) != expected;
		bad += stepped(i) != expected;
		bad += returning(i) != expected;
		bad += jumping(i) != expected;
		bad += all_at_once(i) != expected;
		if (i % 64 == 0)
			cond_resched();
	}
	if (bad)
		WRITE_ONCE(wrong, bad);
	if (atomic_dec_and_test(&running))
		complete(&done);
	return 0;
}

static void give_back(int nr_kps, int nr_rps, int nr_jps)
{
	while (nr_jps--)
		unregister_jprobe(&jps[nr_jps]);
	while (nr_rps--)
		unregister_kretprobe(&rps[nr_rps]);
	while (nr_kps--)
		unregister_kprobe(&kps[nr_kps]);
}

static int __init hammer_init(void)
{
	int k, r = 0, j = 0, err = 0, cpu;

	for (k = 0; k < ARRAY_SIZE(kps) && !err; k += !err)
		err = register_kprobe(&kps[k]);
	for (; r < ARRAY_SIZE(rps) && !err; r += !err)
		err = register_kretprobe(&rps[r]);
	for (; j < ARRAY_SIZE(jps) && !err; j += !err)
		err = register_jprobe(&jps[j]);
	if (err) {
		give_back(k, r, j);
		return err;
	}
	msleep(200); /* for the optimizer */
	calls = turns * num_online_cpus();
	atomic_set(&running, num_online_cpus());
	for (cpu = 0; cpu < num_online_cpus(); cpu++) {
		struct task_struct *t = kthread_create(hammer, NULL, "hammer/%d", cpu);

		kthread_bind(t, cpu);
		wake_up_process(t);
	}
	wait_for_completion(&done);
	return 0;
}

static void __exit hammer_exit(void)
{
	give_back(ARRAY_SIZE(kps), ARRAY_SIZE(rps), ARRAY_SIZE(jps));
}

module_init(hammer_init);
module_exit(hammer_exit);
MODULE_LICENSE("GPL");
