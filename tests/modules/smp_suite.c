// SPDX-License-Identifier: GPL-2.0-or-later
/* Handlers that another CPU does something meanwhile, or that an interrupt comes into. */
#include <linux/completion.h>
#include <linux/kthread.h>
#include <linux/percpu.h>
#include "targets.h"

#define TURNS 2000 /* polls: some turns of the other CPUs */
TARGET long target(long x) { return x + 1; }
TARGET long target2(long x) { return x + 2; }

static int inside, left, hits;

/* Takes its time: the other CPUs go on while it runs. */
static void linger(void)
{
	int i;

	WRITE_ONCE(inside, inside + 1);
	for (i = 0; i < TURNS; i++)
		cpu_relax();
	WRITE_ONCE(left, left + 1);
}

static int slow_pre(struct kprobe *p, struct pt_regs *regs) { linger(); return 0; }
static void slow_post(struct kprobe *p, struct pt_regs *regs, unsigned long flags) { linger(); }
static int slow_node(struct kretprobe_instance *ri, struct pt_regs *regs) { linger(); return 0; }
static long slow_entry(long x) { linger(); jprobe_return(); return 0; }
static int pre(struct kprobe *p, struct pt_regs *regs) { hits++; return 0; }

static struct kprobe kp, kp2;
static struct kretprobe rp;
static struct jprobe jp;

static int suite_init(struct kunit *test)
{
	memset(&kp, 0, sizeof(kp));
	memset(&kp2, 0, sizeof(kp2));
	memset(&rp, 0, sizeof(rp));
	memset(&jp, 0, sizeof(jp));
	kp.symbol_name = rp.kp.symbol_name = jp.kp.symbol_name = "target";
	inside = left = hits = 0;
	return 0;
}

static DECLARE_COMPLETION(done);
static long result;
static int call_target(void *unused)
{
	result = target(1);
	complete(&done);
	return 0;
}

/* target() is called on another CPU; wait until its slow handler is running. */
static void start_elsewhere(struct kunit *test)
{
	int cpu = (smp_processor_id() + 1) % num_online_cpus();
	struct task_struct *t = kthread_create(call_target, NULL, "elsewhere");

	KUNIT_ASSERT_FALSE(test, IS_ERR(t));
	kthread_bind(t, cpu);
	wake_up_process(t);
	while (!READ_ONCE(inside))
		cpu_relax();
	KUNIT_EXPECT_EQ(test, left, 0);
}

static void finish(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, left, inside);
	wait_for_completion(&done);
	KUNIT_EXPECT_EQ(test, result, 2);
}

/* When unregister_kprobe() is back, nobody is in a handler. */
static void test_kprobe(struct kunit *test)
{
	int i;

	for (i = 0; i < 4; i++) {
		suite_init(test);
		kp.offset = i & 1 ? 5 : 0;
		if (i & 2)
			kp.post_handler = slow_post;
		else
			kp.pre_handler = slow_pre;
		KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
		start_elsewhere(test);
		unregister_kprobe(&kp);
		finish(test);
	}
}

static void test_kprobes(struct kunit *test)
{
	struct kprobe *kps[] = { &kp, &kp2 };

	kp.pre_handler = slow_pre;
	kp2.symbol_name = "target2";
	kp2.pre_handler = pre;
	KUNIT_ASSERT_EQ(test, register_kprobes(kps, 2), 0);
	start_elsewhere(test);
	target2(1); /* handled here, whatever the other CPU is at */
	KUNIT_EXPECT_EQ(test, hits, 1);
	KUNIT_EXPECT_EQ(test, kp2.nmissed, 0);
	unregister_kprobes(kps, 2);
	finish(test);
}

static void test_kretprobe(struct kunit *test)
{
	int i;

	for (i = 0; i < 2; i++) {
		suite_init(test);
		if (i)
			rp.entry_handler = slow_node;
		else
			rp.handler = slow_node;
		KUNIT_ASSERT_EQ(test, register_kretprobe(&rp), 0);
		start_elsewhere(test);
		unregister_kretprobe(&rp);
		finish(test);
	}
}

static void test_jprobe(struct kunit *test)
{
	jp.entry = slow_entry;
	KUNIT_ASSERT_EQ(test, register_jprobe(&jp), 0);
	start_elsewhere(test);
	unregister_jprobe(&jp);
	finish(test);
}

/* It goes on being handled when the other probe at its address goes. */
static void test_colocated(struct kunit *test)
{
	kp.pre_handler = slow_pre;
	kp2.symbol_name = "target";
	kp2.pre_handler = pre;
	KUNIT_ASSERT_EQ(test, register_kprobe(&kp2), 0);
	KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
	start_elsewhere(test);
	unregister_kprobe(&kp2);
	finish(test);
	unregister_kprobe(&kp);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(test_kprobe), KUNIT_CASE(test_kprobes), KUNIT_CASE(test_kretprobe),
	KUNIT_CASE(test_jprobe), KUNIT_CASE(test_colocated), {}
};
static struct kunit_suite suite = { .name = "smp", .init = suite_init, .test_cases = cases };
kunit_test_suite(suite);
MODULE_LICENSE("GPL");
