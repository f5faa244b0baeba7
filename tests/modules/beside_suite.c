// SPDX-License-Identifier: GPL-2.0-or-later
/* A return probe beside kprobes at one entry: by breakpoint, by ftrace. */
#include "targets.h"

notrace TARGET long plain(long x) { return x * 10 + 1; }
TARGET long traced(long x) { return x * 10 + 1; }
static long instead(long x) { return 77; }

static int befores, afters, returns, in_irq_off, in_preemptible;
static long returned_value;
static bool is_running;
static unsigned long seen_ip, seen_di, seen_ret[2]; /* the return address, by both kprobes */
static struct kprobe newer, older;
static struct kretprobe rp;
static long (*target)(long);

static int before(struct kprobe *p, struct pt_regs *regs)
{
	befores++;
	is_running = kprobe_running() == p;
	in_irq_off += irqs_disabled();
	in_preemptible += preemptible();
	seen_ip = regs->ip;
	seen_di = regs->di;
	seen_ret[0] = *(unsigned long *)regs->sp;
	return 0;
}

static int after(struct kprobe *p, struct pt_regs *regs)
{
	afters++;
	seen_ret[1] = *(unsigned long *)regs->sp;
	return 0;
}

static int change(struct kprobe *p, struct pt_regs *regs)
{
	afters++;
	regs->di = 5;
	return 0;
}

static int skip(struct kprobe *p, struct pt_regs *regs)
{
	regs->ip = (unsigned long)instead;
	return 1;
}

static int nested(struct kprobe *p, struct pt_regs *regs)
{
	befores++;
	if (regs->di)
		target(0);
	return 0;
}

static int returned(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	returns++;
	returned_value = regs_return_value(regs);
	return 0;
}

static int refuse(struct kretprobe_instance *ri, struct pt_regs *regs) { return 1; }

static int suite_init(struct kunit *test)
{
	memset(&newer, 0, sizeof(newer));
	memset(&older, 0, sizeof(older));
	memset(&rp, 0, sizeof(rp));
	rp.handler = returned;
	befores = afters = returns = in_irq_off = in_preemptible = 0;
	return 0;
}

/* The newest of them: `newer`, then the return probe, then `older`. */
static void put(struct kunit *test, kprobe_pre_handler_t first, kprobe_pre_handler_t last)
{
	newer.pre_handler = first;
	older.pre_handler = last;
	newer.addr = older.addr = rp.kp.addr = (kprobe_opcode_t *)target;
	newer.flags = older.flags = rp.kp.flags = 0;
	KUNIT_ASSERT_EQ(test, register_kprobe(&older), 0);
	KUNIT_ASSERT_EQ(test, register_kretprobe(&rp), 0);
	KUNIT_ASSERT_EQ(test, register_kprobe(&newer), 0);
}

static void take_away(void)
{
	unregister_kprobe(&newer);
	unregister_kretprobe(&rp);
	unregister_kprobe(&older);
}

/* Run a case for each way in. */
static void each(struct kunit *test, void (*one)(struct kunit *, int way))
{
	int way;

	for (way = 0; way < 2; way++) {
		suite_init(test);
		target = way ? traced : plain;
		one(test, way);
	}
}

static void one_order(struct kunit *test, int way)
{
	put(test, before, after);
	KUNIT_EXPECT_EQ(test, target(3), 31);
	KUNIT_EXPECT_EQ(test, target(4), 41);
	KUNIT_EXPECT_EQ(test, befores, 2);
	KUNIT_EXPECT_EQ(test, afters, 2);
	KUNIT_EXPECT_EQ(test, returns, 2);
	KUNIT_EXPECT_EQ(test, returned_value, 41);
	KUNIT_EXPECT_TRUE(test, is_running);
	KUNIT_EXPECT_EQ(test, in_irq_off, way ? 0 : 2);
	KUNIT_EXPECT_EQ(test, in_preemptible, 0);
	KUNIT_EXPECT_EQ(test, seen_ip, (unsigned long)target + 1);
	KUNIT_EXPECT_EQ(test, seen_di, 4);
	KUNIT_EXPECT_NE(test, seen_ret[0], seen_ret[1]);
	KUNIT_EXPECT_NULL(test, kprobe_running());
	KUNIT_EXPECT_TRUE(test, preemptible());
	take_away();
	KUNIT_EXPECT_EQ(test, target(3), 31);
	KUNIT_EXPECT_EQ(test, returns, 2);
}
static void test_order(struct kunit *test) { each(test, one_order); }

static void one_change(struct kunit *test, int way)
{
	put(test, change, change);
	KUNIT_EXPECT_EQ(test, target(3), 51);
	KUNIT_EXPECT_EQ(test, afters, 2);
	KUNIT_EXPECT_EQ(test, returned_value, 51);
	take_away();
}
static void test_changed_registers(struct kunit *test) { each(test, one_change); }

static void one_skip(struct kunit *test, int way)
{
	put(test, skip, after);
	KUNIT_EXPECT_EQ(test, target(3), 77);
	KUNIT_EXPECT_EQ(test, afters, 0);
	KUNIT_EXPECT_EQ(test, returns, 0);
	KUNIT_EXPECT_NULL(test, kprobe_running());
	KUNIT_EXPECT_TRUE(test, preemptible());
	take_away();
	put(test, before, skip);
	KUNIT_EXPECT_EQ(test, target(3), 77);
	KUNIT_EXPECT_EQ(test, befores, 1);
	KUNIT_EXPECT_EQ(test, returned_value, 77);
	take_away();
}
static void test_skipped(struct kunit *test) { each(test, one_skip); }

static void one_disabled(struct kunit *test, int way)
{
	put(test, before, after);
	KUNIT_EXPECT_EQ(test, disable_kprobe(&newer), 0);
	target(1);
	KUNIT_EXPECT_EQ(test, befores, 0);
	KUNIT_EXPECT_EQ(test, afters + returns, 2);
	KUNIT_EXPECT_EQ(test, disable_kretprobe(&rp), 0);
	target(1);
	KUNIT_EXPECT_EQ(test, afters, 2);
	KUNIT_EXPECT_EQ(test, returns, 1);
	KUNIT_EXPECT_EQ(test, enable_kprobe(&newer), 0);
	KUNIT_EXPECT_EQ(test, enable_kretprobe(&rp), 0);
	target(1);
	KUNIT_EXPECT_EQ(test, befores, 1);
	KUNIT_EXPECT_EQ(test, returns, 2);
	take_away();
}
static void test_disabled(struct kunit *test) { each(test, one_disabled); }

static void one_refusal(struct kunit *test, int way)
{
	rp.entry_handler = refuse;
	put(test, before, after);
	KUNIT_EXPECT_EQ(test, target(3), 31);
	KUNIT_EXPECT_EQ(test, befores + afters, 2);
	KUNIT_EXPECT_EQ(test, returns, 0);
	KUNIT_EXPECT_EQ(test, seen_ret[0], seen_ret[1]);
	take_away();
}
static void test_entry_handler(struct kunit *test) { each(test, one_refusal); }

/* A hit by a handler is missed by all. */
static void one_nested(struct kunit *test, int way)
{
	put(test, nested, after);
	KUNIT_EXPECT_EQ(test, target(3), 31);
	KUNIT_EXPECT_EQ(test, befores, 1);
	KUNIT_EXPECT_EQ(test, afters, 1);
	KUNIT_EXPECT_EQ(test, returns, 1);
	KUNIT_EXPECT_EQ(test, newer.nmissed, 1);
	KUNIT_EXPECT_EQ(test, older.nmissed, 1);
	KUNIT_EXPECT_EQ(test, rp.kp.nmissed, 1);
	take_away();
}
static void test_nested(struct kunit *test) { each(test, one_nested); }

notrace TARGET long recursive(long n)
{
	long sum = n ? recursive(n - 1) : 0;

	barrier(); /* or it becomes a loop */
	return sum + n;
}

/* Without a free instance the kprobes are hit all the same. */
static void test_no_instance(struct kunit *test)
{
	target = recursive;
	rp.maxactive = 2;
	put(test, before, after);
	KUNIT_EXPECT_EQ(test, recursive(4), 10);
	KUNIT_EXPECT_EQ(test, befores, 5);
	KUNIT_EXPECT_EQ(test, afters, 5);
	KUNIT_EXPECT_EQ(test, returns, 2);
	KUNIT_EXPECT_EQ(test, rp.nmissed, 3);
	take_away();
}

static struct kunit_case cases[] = {
	KUNIT_CASE(test_order), KUNIT_CASE(test_changed_registers), KUNIT_CASE(test_skipped),
	KUNIT_CASE(test_disabled), KUNIT_CASE(test_entry_handler), KUNIT_CASE(test_nested),
	KUNIT_CASE(test_no_instance), {}
};
static struct kunit_suite suite = { .name = "beside", .init = suite_init, .test_cases = cases };
kunit_test_suite(suite);
MODULE_LICENSE("GPL");
