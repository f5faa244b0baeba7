// SPDX-License-Identifier: GPL-2.0-or-later
/* struct kprobe and its functions. */
#include <linux/random.h>
#include "targets.h"

TARGET long target(long x)
{
	return x + 1;
}
TARGET long target2(long x)
{
	return x + 2;
}
TARGET long far_use(long x)
{
	__asm__ __volatile__("nopl 64(%%rax)" : "+D"(x));
	return x;
}
TARGET long seven(long a, long b, long c, long d, long e, long f, long g)
{
	__asm__ __volatile__("nopl 64(%rax)");
	return a + g;
}

static int pre_hits, post_hits, order[8], nr_order;
static struct kprobe *seen;
static unsigned long seen_ip, seen_di, post_ip;
static bool seen_preemptible;

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	pre_hits++;
	seen = p;
	seen_ip = regs->ip;
	seen_di = regs->di;
	seen_preemptible |= preemptible();
	return 0;
}

static void post(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	post_hits++;
	post_ip = regs->ip;
	seen_preemptible |= preemptible();
}

static struct kprobe kp, kp2, kp3;

static int suite_init(struct kunit *test)
{
	memset(&kp, 0, sizeof(kp));
	memset(&kp2, 0, sizeof(kp2));
	memset(&kp3, 0, sizeof(kp3));
	kp.symbol_name = "target";
	kp.pre_handler = pre;
	kp2.symbol_name = "target2";
	kp2.pre_handler = pre;
	pre_hits = post_hits = nr_order = 0;
	seen = NULL;
	seen_preemptible = false;
	return 0;
}

static void test_handlers(struct kunit *test)
{
	u64 text = text_at(target);
	u32 x = get_random_u32();

	kp.post_handler = post;
	KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
	KUNIT_EXPECT_PTR_EQ(test, kp.addr, target);
	KUNIT_EXPECT_NE(test, text_at(target), text);
	EXPECT_EQUAL(target(x), x + 1L, pre_hits, 1, post_hits, 1);
	KUNIT_EXPECT_PTR_EQ(test, seen, &kp);
	KUNIT_EXPECT_EQ(test, seen_ip, (unsigned long)target + 1);
	KUNIT_EXPECT_EQ(test, seen_di, x);
	KUNIT_EXPECT_FALSE(test, seen_preemptible);
	unregister_kprobe(&kp);
	KUNIT_EXPECT_EQ(test, text_at(target), text);
	EXPECT_EQUAL(target(41), 42, pre_hits, 1);
	KUNIT_EXPECT_TRUE(test, preemptible());
}

/* Behind the nop it is a breakpoint; with a post_handler the instruction is stepped. */
static void test_breakpoint(struct kunit *test)
{
	u8 opcode;

	kp.offset = 5;
	kp.post_handler = post;
	opcode = ((u8 *)target)[5];
	KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
	EXPECT_EQUAL(*(u8 *)kp.addr, 0xcc, kp.opcode, opcode);
	EXPECT_EQUAL(target(1), 2, pre_hits, 1, post_hits, 1);
	KUNIT_EXPECT_EQ(test, seen_ip, (unsigned long)target + 6);
	KUNIT_EXPECT_GT(test, post_ip, (unsigned long)target + 5);
	KUNIT_EXPECT_LT(test, post_ip, (unsigned long)target + 16);
	unregister_kprobe(&kp);
}

static void test_no_handlers(struct kunit *test)
{
	kp.pre_handler = NULL;
	KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
	KUNIT_EXPECT_EQ(test, target(1), 2);
	remove_kprobe(&kp);
	kp.offset = 5;
	KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
	KUNIT_EXPECT_EQ(test, target(1), 2);
	unregister_kprobe(&kp);
}

static void test_where(struct kunit *test)
{
	kp.addr = (kprobe_opcode_t *)target;
	KUNIT_EXPECT_EQ(test, register_kprobe(&kp), -EINVAL); /* both */
	memset(&kp, 0, sizeof(kp));
	KUNIT_EXPECT_EQ(test, register_kprobe(&kp), -EINVAL); /* neither */
	kp.addr = (kprobe_opcode_t *)target;
	kp.offset = 5;
	KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
	KUNIT_EXPECT_PTR_EQ(test, kp.addr, (char *)target + 5);
	KUNIT_EXPECT_EQ(test, register_kprobe(&kp), -EINVAL); /* again */
	unregister_kprobe(&kp);
	memset(&kp, 0, sizeof(kp));
	kp.symbol_name = "no_such_function";
	KUNIT_EXPECT_EQ(test, register_kprobe(&kp), -ENOENT);
	kp.symbol_name = "target";
	kp.offset = 1; /* within the nop */
	KUNIT_EXPECT_EQ(test, register_kprobe(&kp), -EILSEQ);
	memset(&kp, 0, sizeof(kp));
	kp.addr = (kprobe_opcode_t *)&kp;
	KUNIT_EXPECT_EQ(test, register_kprobe(&kp), -EINVAL); /* data */
	memset(&kp, 0, sizeof(kp));
	kp.symbol_name = "notify_die"; /* NOKPROBE_SYMBOL */
	KUNIT_EXPECT_EQ(test, register_kprobe(&kp), -EINVAL);
}

static void test_disabled(struct kunit *test)
{
	u64 text = text_at(target);

	kp.flags = KPROBE_FLAG_DISABLED;
	KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
	KUNIT_EXPECT_TRUE(test, kprobe_disabled(&kp));
	KUNIT_EXPECT_EQ(test, text_at(target), text);
	EXPECT_EQUAL(target(1), 2, pre_hits, 0);
	KUNIT_EXPECT_EQ(test, enable_kprobe(&kp), 0);
	KUNIT_EXPECT_FALSE(test, kprobe_disabled(&kp));
	EXPECT_EQUAL(target(1), 2, pre_hits, 1);
	KUNIT_EXPECT_EQ(test, disable_kprobe(&kp), 0);
	KUNIT_EXPECT_TRUE(test, kprobe_disabled(&kp));
	EXPECT_EQUAL(target(1), 2, pre_hits, 1);
	unregister_kprobe(&kp);
	EXPECT_EQUAL(enable_kprobe(&kp), -EINVAL, disable_kprobe(&kp), -EINVAL);
	KUNIT_EXPECT_EQ(test, register_kprobe(&kp), -EINVAL); /* addr has stayed: both */
}

static void test_batch(struct kunit *test)
{
	struct kprobe *kps[] = { &kp, &kp2 };
	u64 text = text_at(target);

	KUNIT_EXPECT_EQ(test, register_kprobes(kps, 0), -EINVAL);
	KUNIT_ASSERT_EQ(test, register_kprobes(kps, 2), 0);
	target(1);
	EXPECT_EQUAL(target2(1), 3, pre_hits, 2);
	unregister_kprobes(kps, 2);
	EXPECT_EQUAL(target(1), 2, pre_hits, 2);
	KP_CLEAR(kp);
	KP_CLEAR(kp2);
	kp2.symbol_name = "no_such_function";
	KUNIT_EXPECT_EQ(test, register_kprobes(kps, 2), -ENOENT);
	KUNIT_EXPECT_EQ(test, text_at(target), text);
	EXPECT_EQUAL(target(1), 2, pre_hits, 2);
	/* only those before the bad one are undone, not one that was there already */
	memset(&kp2, 0, sizeof(kp2));
	kp2.addr = (kprobe_opcode_t *)target2;
	kp2.pre_handler = pre;
	KUNIT_ASSERT_EQ(test, register_kprobe(&kp2), 0);
	KP_CLEAR(kp);
	KUNIT_EXPECT_EQ(test, register_kprobes(kps, 2), -EINVAL);
	KUNIT_EXPECT_EQ(test, register_kprobes(kps, -1), -EINVAL);
	KUNIT_EXPECT_PTR_EQ(test, kp2.addr, target2);
	target(1);
	EXPECT_EQUAL(target2(1), 3, pre_hits, 3);
	unregister_kprobe(&kp2);
	/* the same one twice */
	KP_CLEAR(kp);
	kps[1] = &kp;
	KUNIT_EXPECT_EQ(test, register_kprobes(kps, 2), -EINVAL);
	KUNIT_EXPECT_EQ(test, text_at(target), text);
	KUNIT_EXPECT_EQ(test, disable_kprobe(&kp), -EINVAL);
}

/* One that is not registered has its addr cleared; the others go. */
static void test_unregister_others(struct kunit *test)
{
	struct kprobe *kps[] = { &kp, &kp2 };
	u64 text = text_at(target2);

	KUNIT_ASSERT_EQ(test, register_kprobe(&kp2), 0);
	kp.addr = (kprobe_opcode_t *)target;
	unregister_kprobes(kps, 2);
	KUNIT_EXPECT_NULL(test, kp.addr);
	KUNIT_EXPECT_PTR_EQ(test, kp2.addr, target2);
	KUNIT_EXPECT_EQ(test, text_at(target2), text);
	unregister_kprobe(&kp2);
	KUNIT_EXPECT_NULL(test, kp2.addr);
}

static int skip_function(struct kprobe *p, struct pt_regs *regs)
{
	pre_hits++;
	regs->ax = 77;
	regs->ip = *(unsigned long *)regs->sp;
	regs->sp += 8;
	return 1;
}

/* Non-zero: the instruction is not run, nor the post_handler called. */
static void test_changed_ip(struct kunit *test)
{
	int offset;

	for (offset = 0; offset <= 5; offset += 5) {
		kp.offset = offset;
		kp.pre_handler = skip_function;
		kp.post_handler = post;
		KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
		KUNIT_EXPECT_EQ(test, target(1), 77);
		remove_kprobe(&kp);
	}
	EXPECT_EQUAL(pre_hits, 2, post_hits, 0);
	KUNIT_EXPECT_EQ(test, target(1), 2);
}

PRE(other_argument, regs->di = 1000)

static void test_changed_registers(struct kunit *test)
{
	int offset;

	for (offset = 0; offset <= 5; offset += 5) {
		kp.offset = offset;
		kp.pre_handler = other_argument;
		KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
		KUNIT_EXPECT_EQ(test, target(1), 1001);
		remove_kprobe(&kp);
	}
}

/* What a post_handler leaves in the registers counts, where it was stepped and elsewhere. */
POST(other_value, regs->di += 500 + flags)

static int nop_pre(struct kprobe *p, struct pt_regs *regs)
{
	return 0;
}

static void test_changed_in_post(struct kunit *test)
{
	int i;

	for (i = 0; i < 4; i++) {
		kp.offset = i & 1 ? 5 : 0;
		kp.pre_handler = i & 2 ? nop_pre : NULL;
		kp.post_handler = other_value;
		kp.symbol_name = "far_use";
		KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
		KUNIT_EXPECT_EQ(test, far_use(1), 501);
		remove_kprobe(&kp);
	}
}

/* A handler writes memory: here the argument that the probed function finds on the stack. */
PRE(other_memory, ((long *)regs->sp)[1] = 700)

static void test_changed_memory(struct kunit *test)
{
	int offset;

	for (offset = 0; offset <= 5; offset += 5) {
		kp.symbol_name = "seven";
		kp.offset = offset;
		kp.pre_handler = other_memory;
		KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
		KUNIT_EXPECT_EQ(test, seven(1, 2, 3, 4, 5, 6, 7), 701);
		remove_kprobe(&kp);
	}
}

PRE(note_kp, order[nr_order++] = p == &kp ? 1 : 2)

static int note_and_stop(struct kprobe *p, struct pt_regs *regs)
{
	note_kp(p, regs);
	return skip_function(p, regs);
}

/* Two at one address: the newest first; one that changes ip is the last to run. */
static void test_colocated(struct kunit *test)
{
	kp.pre_handler = kp2.pre_handler = note_kp;
	kp2.symbol_name = "target";
	KUNIT_ASSERT_EQ(test, register_kprobe(&kp) ?: register_kprobe(&kp2), 0);
	EXPECT_EQUAL(target(1), 2, nr_order, 2, order[0], 2, order[1], 1);
	remove_kprobe(&kp2);
	kp2.pre_handler = note_and_stop;
	KUNIT_ASSERT_EQ(test, register_kprobe(&kp2), 0);
	nr_order = 0;
	EXPECT_EQUAL(target(1), 77, nr_order, 1);
	disable_kprobe(&kp2);
	nr_order = 0;
	EXPECT_EQUAL(target(1), 2, nr_order, 1, order[0], 1);
	unregister_kprobe(&kp);
	unregister_kprobe(&kp2);
	KUNIT_EXPECT_NULL(test, get_kprobe(target));
}

static void test_one_of_two_disabled(struct kunit *test)
{
	int offset;

	for (offset = 0; offset <= 5; offset += 5) {
		pre_hits = post_hits = 0;
		kp.offset = kp2.offset = offset;
		kp2.symbol_name = "target";
		kp.post_handler = kp2.post_handler = post;
		KUNIT_ASSERT_EQ(test, register_kprobe(&kp) ?: register_kprobe(&kp2), 0);
		EXPECT_EQUAL(target(1), 2, pre_hits, 2, post_hits, 2);
		disable_kprobe(&kp);
		EXPECT_EQUAL(target(1), 2, pre_hits, 3, post_hits, 3);
		KUNIT_EXPECT_PTR_EQ(test, seen, &kp2);
		unregister_kprobe(&kp);
		unregister_kprobe(&kp2);
		KP_CLEAR(kp);
		KP_CLEAR(kp2);
	}
}

static long inside;
static int call_target2(struct kprobe *p, struct pt_regs *regs)
{
	pre_hits++;
	inside = target2(10);
	return 0;
}

/* A probe hit in a handler is only counted; at once where its structure says so. */
static void test_nmissed(struct kunit *test)
{
	int offset;

	for (offset = 0; offset <= 5; offset += 5) {
		kp.pre_handler = call_target2;
		kp.offset = kp2.offset = offset;
		KUNIT_ASSERT_EQ(test, register_kprobe(&kp) ?: register_kprobe(&kp2), 0);
		pre_hits = 0;
		EXPECT_EQUAL(target(1), 2, inside, 12, pre_hits, 1, kp.nmissed, 0);
		KUNIT_EXPECT_EQ(test, kp2.nmissed, 1);
		EXPECT_EQUAL(target2(1), 3, pre_hits, 2);
		unregister_kprobe(&kp);
		unregister_kprobe(&kp2);
		KUNIT_EXPECT_EQ(test, kp2.nmissed, 1);
		KP_CLEAR(kp);
		KP_CLEAR(kp2);
	}
	KUNIT_ASSERT_EQ(test, register_kprobe(&kp2), 0);
	KUNIT_EXPECT_EQ(test, kp2.nmissed, 0);
	unregister_kprobe(&kp2);
	/* one without handlers, and two at one address, of which one is disabled */
	for (offset = 0; offset <= 5; offset += 5) {
		KP_CLEAR(kp);
		KP_CLEAR(kp2);
		KP_CLEAR(kp3);
		kp.offset = kp2.offset = kp3.offset = offset;
		kp2.pre_handler = NULL;
		kp3.symbol_name = "target2";
		KUNIT_ASSERT_EQ(test, register_kprobe(&kp) ?: register_kprobe(&kp2), 0);
		EXPECT_EQUAL(target(1), 2, kp2.nmissed, 1);
		kp3.flags = KPROBE_FLAG_DISABLED;
		KUNIT_ASSERT_EQ(test, register_kprobe(&kp3), 0);
		EXPECT_EQUAL(target(1), 2, kp2.nmissed, 2, kp3.nmissed, 1);
		unregister_kprobe(&kp);
		unregister_kprobe(&kp2);
		unregister_kprobe(&kp3);
	}
}

static struct kprobe *running;
PRE(ask_running, running = kprobe_running())

static void test_kprobe_running(struct kunit *test)
{
	KUNIT_EXPECT_NULL(test, kprobe_running());
	kp.pre_handler = ask_running;
	KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
	target(1);
	KUNIT_EXPECT_PTR_EQ(test, running, &kp);
	KUNIT_EXPECT_NULL(test, kprobe_running());
	unregister_kprobe(&kp);
}

SUITE(kprobe, suite_init, KUNIT_CASE(test_handlers), KUNIT_CASE(test_breakpoint),
      KUNIT_CASE(test_no_handlers), KUNIT_CASE(test_where), KUNIT_CASE(test_disabled),
      KUNIT_CASE(test_batch), KUNIT_CASE(test_unregister_others), KUNIT_CASE(test_changed_ip),
      KUNIT_CASE(test_changed_registers), KUNIT_CASE(test_changed_in_post),
      KUNIT_CASE(test_changed_memory), KUNIT_CASE(test_colocated),
      KUNIT_CASE(test_one_of_two_disabled), KUNIT_CASE(test_nmissed),
      KUNIT_CASE(test_kprobe_running));
