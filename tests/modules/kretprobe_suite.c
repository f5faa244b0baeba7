// SPDX-License-Identifier: GPL-2.0-or-later
/* struct kretprobe and its functions. */
#include "targets.h"

TARGET long inner(long x)
{
	return x + 1;
}
TARGET long outer(long x)
{
	return inner(x) * 10;
}
TARGET long recursive(long n)
{
	long sum = n ? recursive(n - 1) : 0;

	barrier(); /* or it becomes a loop */
	return sum + n;
}

struct private { long argument; };
static int entries, returns, order[8], nr_order;
static long retvals[16];
static struct kretprobe *seen_rp;
static struct task_struct *seen_task;
static void *seen_ret_addr, *caller;
static bool seen_preemptible;
static struct kretprobe rp, rp2;
static struct kprobe kp, *running;

static int entered(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	((struct private *)ri->data)->argument = regs->di;
	seen_preemptible |= preemptible();
	entries++;
	return 0;
}

static int returned(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	seen_rp = get_kretprobe(ri);
	running = kprobe_running();
	seen_task = ri->task;
	seen_ret_addr = (void *)get_kretprobe_retaddr(ri);
	seen_preemptible |= preemptible();
	retvals[returns++ & 15] = regs_return_value(regs);
	return 0;
}

static int check_data(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	returned(ri, regs);
	retvals[8 + (returns & 7)] = ((struct private *)ri->data)->argument;
	return 0;
}

static int suite_init(struct kunit *test)
{
	memset(&rp, 0, sizeof(rp));
	memset(&rp2, 0, sizeof(rp2));
	memset(&kp, 0, sizeof(kp));
	rp.kp.symbol_name = "inner";
	rp.handler = returned;
	rp2.kp.symbol_name = "outer";
	rp2.handler = returned;
	entries = returns = nr_order = 0;
	seen_preemptible = false;
	return 0;
}

static void test_return(struct kunit *test)
{
	KUNIT_ASSERT_EQ(test, register_kretprobe(&rp), 0);
	EXPECT_EQUAL(outer(3), 40, returns, 1, retvals[0], 4);
	KUNIT_EXPECT_PTR_EQ(test, seen_rp, &rp);
	KUNIT_EXPECT_PTR_EQ(test, seen_task, current);
	KUNIT_EXPECT_GT(test, (unsigned long)seen_ret_addr, (unsigned long)outer);
	KUNIT_EXPECT_LT(test, (unsigned long)seen_ret_addr, (unsigned long)outer + 64);
	KUNIT_EXPECT_FALSE(test, seen_preemptible);
	KUNIT_EXPECT_PTR_EQ(test, rp.kp.addr, inner);
	unregister_kretprobe(&rp);
	EXPECT_EQUAL(outer(3), 40, returns, 1);
}

static void test_maxactive(struct kunit *test)
{
	int cpus = num_online_cpus(), expected = 2 * cpus > 10 ? 2 * cpus : 10;

	KUNIT_ASSERT_EQ(test, register_kretprobe(&rp), 0);
	KUNIT_EXPECT_EQ(test, rp.maxactive, expected);
	unregister_kretprobe(&rp);
	/* so many instances there are */
	KP_CLEAR(rp.kp);
	rp.kp.symbol_name = "recursive";
	KUNIT_ASSERT_EQ(test, register_kretprobe(&rp), 0);
	recursive(expected + 1);
	EXPECT_EQUAL(returns, expected, rp.nmissed, 2);
	remove_kretprobe(&rp);
	rp.maxactive = -3;
	KUNIT_ASSERT_EQ(test, register_kretprobe(&rp), 0);
	KUNIT_EXPECT_EQ(test, rp.maxactive, expected);
	unregister_kretprobe(&rp);
}

PRE(pre, order[nr_order++] = kprobe_running() == p)

/* At the return it is the return probe again that is being handled. */
static void test_kprobe_running(struct kunit *test)
{
	KUNIT_ASSERT_EQ(test, register_kretprobe(&rp), 0);
	kp.symbol_name = "inner";
	kp.offset = 5;
	kp.pre_handler = pre;
	KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
	EXPECT_EQUAL(inner(1), 2, nr_order, 1, order[0], 1);
	KUNIT_EXPECT_PTR_EQ(test, running, &rp.kp);
	KUNIT_EXPECT_NULL(test, kprobe_running());
	unregister_kprobe(&kp);
	unregister_kretprobe(&rp);
}

/* Recursion takes an instance for each call; the calls beyond are missed, not lost. */
static void test_recursion(struct kunit *test)
{
	rp.kp.symbol_name = "recursive";
	rp.maxactive = 3;
	KUNIT_ASSERT_EQ(test, register_kretprobe(&rp), 0);
	EXPECT_EQUAL(recursive(4), 10, returns, 3, rp.nmissed, 2);
	KUNIT_EXPECT_EQ(test, retvals[0], 3); /* of recursive(2) */
	KUNIT_EXPECT_EQ(test, retvals[2], 10);
	EXPECT_EQUAL(recursive(2), 3, returns, 6, rp.nmissed, 2);
	unregister_kretprobe(&rp);
	KUNIT_EXPECT_EQ(test, rp.nmissed, 2);
	KP_CLEAR(rp.kp);
	KUNIT_ASSERT_EQ(test, register_kretprobe(&rp), 0);
	KUNIT_EXPECT_EQ(test, rp.nmissed, 0);
	unregister_kretprobe(&rp);
}

static void test_data(struct kunit *test)
{
	rp.kp.symbol_name = "recursive";
	rp.entry_handler = entered;
	rp.handler = check_data;
	rp.data_size = sizeof(struct private);
	KUNIT_ASSERT_EQ(test, register_kretprobe(&rp), 0);
	EXPECT_EQUAL(recursive(2), 3, entries, 3, returns, 3, retvals[8 + 1], 0);
	EXPECT_EQUAL(retvals[8 + 2], 1, retvals[8 + 3], 2);
	KUNIT_EXPECT_FALSE(test, seen_preemptible);
	remove_kretprobe(&rp);
	rp.data_size = KRETPROBE_MAX_DATA_SIZE + 1;
	KUNIT_EXPECT_EQ(test, register_kretprobe(&rp), -E2BIG);
}

static int refuse_odd(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	entries += ri->rp == &rp && ri->task == current;
	return regs->di & 1;
}

/* Non-zero: this call is not probed, and takes no instance. */
static void test_entry_handler_refuses(struct kunit *test)
{
	rp.entry_handler = refuse_odd;
	rp.maxactive = 1;
	KUNIT_ASSERT_EQ(test, register_kretprobe(&rp), 0);
	KUNIT_EXPECT_EQ(test, inner(1), 2);
	KUNIT_EXPECT_EQ(test, inner(3), 4);
	EXPECT_EQUAL(inner(2), 3, entries, 3, returns, 1, rp.nmissed, 0);
	unregister_kretprobe(&rp);
}

POST(post, nr_order++)

/* One of the two handlers, or none. */
static void test_no_handlers(struct kunit *test)
{
	int i;

	for (i = 0; i < 2; i++) {
		rp.handler = NULL;
		rp.entry_handler = i ? refuse_odd : NULL;
		rp.maxactive = 1;
		KUNIT_ASSERT_EQ(test, register_kretprobe(&rp), 0);
		KUNIT_EXPECT_EQ(test, inner(2), 3);
		EXPECT_EQUAL(inner(2), 3, rp.nmissed, 0);
		remove_kretprobe(&rp);
	}
	KUNIT_EXPECT_EQ(test, entries, 2);
	/* a post_handler is not for return probes */
	rp.kp.post_handler = post;
	KUNIT_ASSERT_EQ(test, register_kretprobe(&rp), 0);
	KUNIT_EXPECT_EQ(test, inner(2), 3);
	remove_kretprobe(&rp);
	KUNIT_EXPECT_EQ(test, nr_order, 0);
	entries = 2;
	/* nor is the entry_handler called where there is no instance */
	rp.kp.symbol_name = "recursive";
	rp.entry_handler = entered;
	rp.data_size = sizeof(struct private);
	rp.maxactive = 2;
	KUNIT_ASSERT_EQ(test, register_kretprobe(&rp), 0);
	EXPECT_EQUAL(recursive(4), 10, entries, 4, rp.nmissed, 3);
	unregister_kretprobe(&rp);
}

static bool in_outer(unsigned long addr)
{
	return addr > (unsigned long)outer && addr < (unsigned long)outer + 64;
}

static int note(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	order[nr_order++] = ri->rp == &rp ? 1 : 2;
	retvals[returns++ & 15] = (long)ri->ret_addr;
	return 0;
}

/*
 * Several on one function: the newest is entered first and so returns last; it alone sees
 * the real return address, the others the trampoline's.
 */
static void test_colocated(struct kunit *test)
{
	rp.handler = rp2.handler = note;
	rp2.kp.symbol_name = "inner";
	KUNIT_ASSERT_EQ(test, register_kretprobe(&rp) ?: register_kretprobe(&rp2), 0);
	EXPECT_EQUAL(outer(1), 20, nr_order, 2, order[0], 1, order[1], 2);
	KUNIT_EXPECT_FALSE(test, in_outer(retvals[0]));
	KUNIT_EXPECT_TRUE(test, in_outer(retvals[1]));
	unregister_kretprobe(&rp);
	EXPECT_EQUAL(outer(1), 20, nr_order, 3, order[2], 2);
	KUNIT_EXPECT_TRUE(test, in_outer(retvals[2]));
	unregister_kretprobe(&rp2);
}

static void test_batch(struct kunit *test)
{
	struct kretprobe *rps[] = { &rp, &rp2 };

	KUNIT_EXPECT_EQ(test, register_kretprobes(rps, 0), -EINVAL);
	KUNIT_ASSERT_EQ(test, register_kretprobes(rps, 2), 0);
	EXPECT_EQUAL(outer(1), 20, returns, 2, retvals[0], 2, retvals[1], 20);
	unregister_kretprobes(rps, 2);
	KP_CLEAR(rp.kp);
	KP_CLEAR(rp2.kp);
	rp2.kp.symbol_name = "no_such_function";
	KUNIT_EXPECT_EQ(test, register_kretprobes(rps, 2), -ENOENT);
	EXPECT_EQUAL(outer(1), 20, returns, 2);
}

static void test_switch(struct kunit *test)
{
	KUNIT_ASSERT_EQ(test, register_kretprobe(&rp), 0);
	EXPECT_EQUAL(disable_kretprobe(&rp), 0, inner(1), 2, returns, 0);
	EXPECT_EQUAL(enable_kretprobe(&rp), 0, inner(1), 2, returns, 1);
	unregister_kretprobe(&rp);
	EXPECT_EQUAL(enable_kretprobe(&rp), -EINVAL, disable_kretprobe(&rp), -EINVAL);
	KP_CLEAR(rp.kp);
	rp.kp.flags = KPROBE_FLAG_DISABLED;
	KUNIT_ASSERT_EQ(test, register_kretprobe(&rp), 0);
	EXPECT_EQUAL(inner(1), 2, returns, 1);
	EXPECT_EQUAL(enable_kretprobe(&rp), 0, inner(1), 2, returns, 2);
	unregister_kretprobe(&rp);
}

/* One that is not registered has its addr cleared, the other goes. */
static void test_unregister_others(struct kunit *test)
{
	struct kretprobe *rps[] = { &rp2, &rp };
	u64 text = text_at(inner);

	KUNIT_ASSERT_EQ(test, register_kretprobe(&rp), 0);
	rp2.kp.addr = (kprobe_opcode_t *)outer;
	unregister_kretprobes(rps, 2);
	KUNIT_EXPECT_NULL(test, rp2.kp.addr);
	KUNIT_EXPECT_PTR_EQ(test, rp.kp.addr, inner);
	KUNIT_EXPECT_EQ(test, text_at(inner), text);
}

static void test_where(struct kunit *test)
{
	rp.kp.offset = 5;
	KUNIT_EXPECT_EQ(test, register_kretprobe(&rp), -EINVAL);
	KP_CLEAR(rp.kp);
	rp.kp.offset = 0;
	rp.kp.symbol_name = "__switch_to";
	KUNIT_EXPECT_EQ(test, register_kretprobe(&rp), -EINVAL);
	KP_CLEAR(rp.kp);
	rp.kp.symbol_name = "no_such_function";
	KUNIT_EXPECT_EQ(test, register_kretprobe(&rp), -ENOENT);
}

/* The function unregisters the probe: it returns all the same, without the handler. */
TARGET long unregister_me(struct kretprobe *p)
{
	unregister_kretprobe(p);
	return 5;
}

static void test_unregistered_meanwhile(struct kunit *test)
{
	rp.kp.symbol_name = "unregister_me";
	KUNIT_ASSERT_EQ(test, register_kretprobe(&rp), 0);
	KUNIT_EXPECT_EQ(test, unregister_me(&rp), 5);
	KUNIT_EXPECT_EQ(test, returns, 0);
}

KRET(change_value, regs_set_return_value(regs, 99))

static void test_changed_value(struct kunit *test)
{
	rp.handler = change_value;
	KUNIT_ASSERT_EQ(test, register_kretprobe(&rp), 0);
	KUNIT_EXPECT_EQ(test, outer(1), 990);
	unregister_kretprobe(&rp);
}

static unsigned long stack[16];
static int nr_stack;
KRET(save_stack, nr_stack = stack_trace_save_regs(regs, stack, 16, 0))

/* One made by what the probed functions call, and one made by a handler of its own stack. */
static bool on_stack(unsigned long from, unsigned long to)
{
	int i;

	for (i = 0; i < nr_stack; i++)
		if (stack[i] >= from && stack[i] < to)
			return true;
	return false;
}

TARGET long leaf(long x)
{
	nr_stack = stack_trace_save(stack, 16, 0);
	return x;
}
TARGET long middle(long x)
{
	return leaf(x) + 1;
}
TARGET long top(long x)
{
	return middle(x) + 1;
}

static int save_own_stack(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	returned(ri, regs);
	nr_stack = stack_trace_save(stack, 16, 0);
	return 0;
}

static void test_stack_inside(struct kunit *test)
{
	struct kretprobe *rps[] = { &rp, &rp2 };
	unsigned long back_in_top;

	rp.kp.symbol_name = "leaf";
	rp2.kp.symbol_name = "middle";
	KUNIT_ASSERT_EQ(test, register_kretprobes(rps, 2), 0);
	KUNIT_EXPECT_EQ(test, top(1), 3);
	back_in_top = (unsigned long)seen_ret_addr;
	/* nothing of the trampoline: leaf, middle, top */
	KUNIT_ASSERT_GT(test, nr_stack, 3);
	KUNIT_EXPECT_TRUE(test,
			  stack[0] >= (unsigned long)leaf && stack[0] < (unsigned long)middle);
	KUNIT_EXPECT_TRUE(test, stack[1] >= (unsigned long)middle && stack[1] < (unsigned long)top);
	KUNIT_EXPECT_EQ(test, stack[2], back_in_top);
	unregister_kretprobes(rps, 2);
	/* in a handler: the handler, what has called it, and where the function returns to */
	KP_CLEAR(rp2.kp);
	rp2.handler = save_own_stack;
	KUNIT_ASSERT_EQ(test, register_kretprobe(&rp2), 0);
	top(1);
	KUNIT_EXPECT_TRUE(test, stack[0] >= (unsigned long)save_own_stack &&
					stack[0] < (unsigned long)save_own_stack + 64);
	KUNIT_EXPECT_TRUE(test, on_stack(back_in_top, back_in_top + 1));
	KUNIT_EXPECT_NE(test, stack[1], back_in_top); /* the trampoline stands between */
	KUNIT_EXPECT_FALSE(test, on_stack((unsigned long)middle, (unsigned long)top));
	unregister_kretprobe(&rp2);
}

/* Both return addresses are those of the callers, not the trampoline's. */
static void test_stack_trace(struct kunit *test)
{
	struct kretprobe *rps[] = { &rp, &rp2 };

	rp.handler = save_stack;
	KUNIT_ASSERT_EQ(test, register_kretprobes(rps, 2), 0);
	outer(1);
	caller = seen_ret_addr; /* outer's */
	KUNIT_ASSERT_GT(test, nr_stack, 2);
	KUNIT_EXPECT_GT(test, stack[0], (unsigned long)outer);
	KUNIT_EXPECT_LT(test, stack[0], (unsigned long)outer + 64);
	KUNIT_EXPECT_EQ(test, stack[1], (unsigned long)caller);
	unregister_kretprobes(rps, 2);
}

SUITE(kretprobe, suite_init, KUNIT_CASE(test_return), KUNIT_CASE(test_maxactive),
      KUNIT_CASE(test_kprobe_running), KUNIT_CASE(test_recursion), KUNIT_CASE(test_data),
      KUNIT_CASE(test_entry_handler_refuses), KUNIT_CASE(test_no_handlers),
      KUNIT_CASE(test_colocated), KUNIT_CASE(test_batch), KUNIT_CASE(test_switch),
      KUNIT_CASE(test_where), KUNIT_CASE(test_unregistered_meanwhile),
      KUNIT_CASE(test_changed_value), KUNIT_CASE(test_unregister_others),
      KUNIT_CASE(test_stack_inside), KUNIT_CASE(test_stack_trace));
