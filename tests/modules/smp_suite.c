// SPDX-License-Identifier: GPL-2.0-or-later
/* Handlers that another CPU does something meanwhile, or that an interrupt comes into. */
#include <linux/completion.h>
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/percpu.h>
#include "targets.h"

#define TURNS 2000 /* polls: some turns of the other CPUs */
TARGET long target(long x)
{
	return x + 1;
}
TARGET long target2(long x)
{
	return x + 2;
}

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

PRE(slow_pre, linger())
POST(slow_post, linger())
KRET(slow_node, linger())
static long slow_entry(long x)
{
	linger();
	jprobe_return();
	return 0;
}
PRE(pre, hits++)
KRET(count_return, hits++)

static struct kprobe kp, kp2;
static struct kretprobe rp;
static struct jprobe jp;

static int suite_init(struct kunit *test)
{
	memset(&kp, 0, sizeof(kp));
	memset(&kp2, 0, sizeof(kp2));
	memset(&rp, 0, sizeof(rp));
	memset(&jp, 0, sizeof(jp));
	kp.symbol_name = kp2.symbol_name = rp.kp.symbol_name = jp.kp.symbol_name = "target";
	kp2.pre_handler = pre;
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

static void run_elsewhere(struct kunit *test, int (*function)(void *))
{
	int cpu = (smp_processor_id() + 1) % num_online_cpus();
	struct task_struct *t = kthread_create(function, NULL, "elsewhere");

	KUNIT_ASSERT_FALSE(test, IS_ERR(t));
	kthread_bind(t, cpu);
	wake_up_process(t);
}

/* target() is called on another CPU; wait until its slow handler is running. */
static void start_elsewhere(struct kunit *test)
{
	run_elsewhere(test, call_target);
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
	KUNIT_ASSERT_EQ(test, register_kprobes(kps, 2), 0);
	start_elsewhere(test);
	target2(1); /* handled here, whatever the other CPU is at */
	EXPECT_EQUAL(hits, 1, kp2.nmissed, 0);
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

/* Beside a return probe, another probe comes while the other CPU is in a handler. */
static void test_beside_a_kretprobe(struct kunit *test)
{
	rp.handler = count_return;
	kp.pre_handler = slow_pre;
	KUNIT_ASSERT_EQ(test, register_kretprobe(&rp) ?: register_kprobe(&kp), 0);
	start_elsewhere(test);
	KUNIT_ASSERT_EQ(test, register_kprobe(&kp2), 0);
	KUNIT_EXPECT_EQ(test, left, 0);
	wait_for_completion(&done);
	EXPECT_EQUAL(result, 2, left, 1, hits, 1);
	unregister_kprobe(&kp2);
	unregister_kprobe(&kp);
	unregister_kretprobe(&rp);
}

static int unregister_kp2(void *unused)
{
	while (!READ_ONCE(inside))
		cpu_relax();
	unregister_kprobe(&kp2);
	complete(&done);
	return 0;
}

/* There, one that goes before its turn comes is not called any more. */
static void test_beside_a_kretprobe_and_gone(struct kunit *test)
{
	rp.handler = count_return;
	kp.pre_handler = slow_pre;
	KUNIT_ASSERT_EQ(test, register_kprobe(&kp2) ?: register_kretprobe(&rp), 0);
	KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
	run_elsewhere(test, unregister_kp2);
	EXPECT_EQUAL(target(1), 2, left, 1, hits, 1);
	wait_for_completion(&done);
	unregister_kprobe(&kp);
	unregister_kretprobe(&rp);
}

/* It goes on being handled when the other probe at its address goes. */
static void test_colocated(struct kunit *test)
{
	kp.pre_handler = slow_pre;
	KUNIT_ASSERT_EQ(test, register_kprobe(&kp2) ?: register_kprobe(&kp), 0);
	start_elsewhere(test);
	unregister_kprobe(&kp2);
	finish(test);
	unregister_kprobe(&kp);
}

/* A timer of this CPU whose interrupt counts; the probe on what it calls is kp2. */
static int ticks, running_wrong;
static bool came_in;
TARGET void tick(void)
{
	ticks++;
}
static enum hrtimer_restart timer_fn(struct hrtimer *t)
{
	if (!in_hardirq())
		running_wrong++;
	tick();
	return HRTIMER_NORESTART;
}
static struct hrtimer timer;

/* Waits for the interrupt, if it can come in. */
static int wait_for_tick(struct kprobe *p, struct pt_regs *regs)
{
	int i, before = ticks;

	for (i = 0; i < 20 * TURNS && READ_ONCE(ticks) == before; i++)
		cpu_relax();
	came_in = ticks != before;
	if (kprobe_running() != p)
		running_wrong++;
	return 0;
}
POST(wait_post, wait_for_tick(p, regs))
static int wait_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	return wait_for_tick(kprobe_running(), regs);
}
static int posts;
POST(post, posts++)

/* Call target() on this CPU, whose probe waits; then let another tick be hit. */
static void one_tick(struct kunit *test, bool inside)
{
	int before = ticks, hit = hits, stepped = posts;
	unsigned long missed = kp2.nmissed;

	hrtimer_init(&timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	timer.function = timer_fn;
	came_in = false;
	hrtimer_start(&timer, 1000 * 1000, HRTIMER_MODE_REL);
	EXPECT_EQUAL(target(1), 2, came_in, inside);
	while (READ_ONCE(ticks) == before)
		cpu_relax();
	EXPECT_EQUAL(ticks, before + 1, kp2.nmissed - missed, inside, hits - hit, !inside);
	KUNIT_EXPECT_EQ(test, posts - stepped, kp2.post_handler && !inside);
	KUNIT_EXPECT_NULL(test, kprobe_running());
	hrtimer_start(&timer, 1000, HRTIMER_MODE_REL);
	while (READ_ONCE(ticks) == before + 1)
		cpu_relax();
	EXPECT_EQUAL(hits - hit, 1 + !inside, running_wrong, 0);
}

/*
 * A probe in an interrupt handler, while another one is being handled on the same CPU:
 * the handler does its work, with the instruction stepped if need be, and the hit is
 * missed. In the handlers of a breakpoint no interrupt comes.
 */
static void test_interrupt(struct kunit *test)
{
	int inner, outer;

	for (inner = 0; inner < 3; inner++) {
		for (outer = 0; outer < 4; outer++) {
			suite_init(test);
			kp2.symbol_name = "tick";
			kp2.offset = inner ? 5 : 0;
			kp2.post_handler = inner == 2 ? post : NULL;
			kp.offset = outer & 1 ? 5 : 0;
			if (outer < 2)
				kp.pre_handler = wait_for_tick;
			else
				kp.post_handler = wait_post;
			KUNIT_ASSERT_EQ(test, register_kprobe(&kp2) ?: register_kprobe(&kp), 0);
			one_tick(test, !(outer & 1));
			unregister_kprobe(&kp);
			unregister_kprobe(&kp2);
		}
		KP_CLEAR(kp2);
		rp.handler = wait_return;
		KUNIT_ASSERT_EQ(test, register_kprobe(&kp2) ?: register_kretprobe(&rp), 0);
		one_tick(test, true);
		unregister_kretprobe(&rp);
		unregister_kprobe(&kp2);
	}
}

/* A return probe in the interrupt instead: that call is not hooked. */
static void test_interrupt_returns(struct kunit *test)
{
	rp.kp.symbol_name = "tick";
	rp.handler = count_return;
	kp.pre_handler = wait_for_tick;
	KUNIT_ASSERT_EQ(test, register_kretprobe(&rp) ?: register_kprobe(&kp), 0);
	hrtimer_init(&timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	timer.function = timer_fn;
	hrtimer_start(&timer, 1000 * 1000, HRTIMER_MODE_REL);
	KUNIT_EXPECT_EQ(test, target(1), 2);
	KUNIT_EXPECT_TRUE(test, came_in);
	EXPECT_EQUAL(hits, 0, rp.kp.nmissed, 1);
	tick();
	KUNIT_EXPECT_EQ(test, hits, 1);
	unregister_kprobe(&kp);
	unregister_kretprobe(&rp);
}

SUITE(smp, suite_init, KUNIT_CASE(test_kprobe), KUNIT_CASE(test_kprobes),
      KUNIT_CASE(test_kretprobe), KUNIT_CASE(test_jprobe), KUNIT_CASE(test_colocated),
      KUNIT_CASE(test_interrupt), KUNIT_CASE(test_interrupt_returns),
      KUNIT_CASE(test_beside_a_kretprobe), KUNIT_CASE(test_beside_a_kretprobe_and_gone));
