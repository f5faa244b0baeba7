// SPDX-License-Identifier: GPL-2.0-or-later
/* struct jprobe and its functions; break handlers. */
#include "targets.h"

TARGET long six(long a, long b, long c, long d, long e, long f)
{
	return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f;
}
/* Without a nop at its entry: probed by a breakpoint. */
notrace TARGET long bare(long a, long b, long c, long d, long e, long f)
{
	return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f;
}
typeof(six) *target;
TARGET long nine(long a, long b, long c, long d, long e, long f, long g, long h, long i)
{
	return a + b + c + d + e + f + 10 * g + 100 * h + 1000 * i;
}
TARGET long other(long x)
{
	return x + 1;
}

static long got[9];
static int hits, pre_hits, post_hits;
static bool was_preemptible, irqs_were_on;
static struct kprobe *running;

static long my_six(long a, long b, long c, long d, long e, long f)
{
	hits++;
	was_preemptible |= preemptible();
	irqs_were_on |= !irqs_disabled();
	got[0] = a;
	got[1] = b;
	got[2] = c;
	got[3] = d;
	got[4] = e;
	got[5] = f;
	running = kprobe_running();
	a = b = c = d = e = f = 0;
	__asm__ __volatile__(
		"xor %%ebx, %%ebx; xor %%r12d, %%r12d; xor %%r15d, %%r15d; xor %%esi, %%esi"
		:
		:
		: "rbx", "r12", "r15", "rsi", "memory");
	jprobe_return();
	return 0;
}

/* Changes its arguments on the stack, which are the probed function's own. */
static long my_nine(long a, long b, long c, long d, long e, long f, long g, long h, long i)
{
	volatile long *stacked = &g;

	hits++;
	got[6] = g;
	got[7] = h;
	got[8] = i;
	__asm__("" : "+r"(stacked));
	stacked[0] = stacked[1] = stacked[2] = -1;
	jprobe_return();
	return 0;
}

PRE(pre, pre_hits++)
POST(post, post_hits++)
static struct jprobe jp, jp2;
static struct kprobe kp;

static void probe_six(bool by_breakpoint)
{
	target = by_breakpoint ? bare : six;
	jp.kp.symbol_name = jp2.kp.symbol_name = kp.symbol_name = by_breakpoint ? "bare" : "six";
}

static int suite_init(struct kunit *test)
{
	memset(&jp, 0, sizeof(jp));
	memset(&jp2, 0, sizeof(jp2));
	memset(&kp, 0, sizeof(kp));
	probe_six(false);
	jp.entry = jp2.entry = my_six;
	kp.pre_handler = pre;
	hits = pre_hits = post_hits = 0;
	memset(got, 0, sizeof(got));
	was_preemptible = irqs_were_on = false;
	return 0;
}

static void check_arguments(struct kunit *test)
{
	int i;

	KUNIT_ASSERT_EQ(test, register_jprobe(&jp), 0);
	KUNIT_EXPECT_TRUE(test, jp.kp.pre_handler && jp.kp.break_handler);
	KUNIT_EXPECT_EQ(test, target(1, 2, 3, 4, 5, 6), 91);
	EXPECT_EQUAL(target(1, 2, 3, 4, 5, 6), 91, hits, 2);
	for (i = 0; i < 6; i++)
		KUNIT_EXPECT_EQ(test, got[i], i + 1);
	KUNIT_EXPECT_FALSE(test, was_preemptible);
	KUNIT_EXPECT_FALSE(test, irqs_were_on);
	KUNIT_EXPECT_PTR_EQ(test, running, &jp.kp);
	KUNIT_EXPECT_TRUE(test, preemptible());
	unregister_jprobe(&jp);
	EXPECT_EQUAL(target(1, 2, 3, 4, 5, 6), 91, hits, 2);
}

static int entries, returns;
KRET(entered, entries++)
KRET(returned, returns += regs_return_value(regs) == 91)
static struct kretprobe rp;

/* At an entry nop, without one, and with other probes there: there are several ways. */
static void test_arguments(struct kunit *test)
{
	int i;

	for (i = 0; i < 16; i++) {
		suite_init(test);
		memset(&rp, 0, sizeof(rp));
		entries = returns = 0;
		probe_six(i & 1);
		rp.kp.symbol_name = kp.symbol_name;
		rp.handler = returned;
		if (i & 8)
			rp.entry_handler = entered;
		if (i & 4)
			KUNIT_ASSERT_EQ(test, register_kretprobe(&rp), 0);
		if (i & 2)
			KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
		check_arguments(test);
		EXPECT_EQUAL(pre_hits, i & 2 ? 3 : 0, returns, i & 4 ? 3 : 0);
		KUNIT_EXPECT_EQ(test, entries, (i & 12) == 12 ? 3 : 0);
		unregister_kprobe(&kp);
		unregister_kretprobe(&rp);
	}
}

/* All that a call must leave alone, and what stands on the stack above its frame. */
static long call_checked(long *top)
{
	long ok;

	__asm__ __volatile__(
		"movq %%rsp, %%r13\n\tmovq %1, %%rsp\n\t"
		"movq $11, %%rbx\n\tmovq $12, %%r12\n\tmovq $14, %%r14\n\tmovq $15, %%r15\n\t"
		"movq %%rbp, 8(%%rsp)\n\tmovq $10, %%rbp\n\t"
		"movl $1, %%edi\n\tmovl $2, %%esi\n\tmovl $3, %%edx\n\tmovl $4, %%ecx\n\t"
		"movl $5, %%r8d\n\tmovl $6, %%r9d\n\tmovl $99, %%eax\n\tmovl $100, %%r10d\n\tcall *target\n\t"
		"subq $91, %%rax\n\tsubq $11, %%rbx\n\torq %%rbx, %%rax\n\t"
		"subq $12, %%r12\n\torq %%r12, %%rax\n\tsubq $14, %%r14\n\torq %%r14, %%rax\n\t"
		"subq $15, %%r15\n\torq %%r15, %%rax\n\tsubq $10, %%rbp\n\torq %%rbp, %%rax\n\t"
		"movq 8(%%rsp), %%rbp\n\tmovq %%r13, %%rsp"
		: "=&a"(ok)
		: "c"(top)
		: "rbx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
		  "memory", "cc");
	return ok;
}

/* At its entry: every register as the caller left it, the stack too. */
long at_entry[15];
long look_at_entry(void);
__asm__(".pushsection .text\n.globl look_at_entry\n.type look_at_entry, @function\nlook_at_entry:\n\t"
	"movq %rbx, at_entry\n\tmovq %r12, at_entry+8\n\tmovq %r14, at_entry+16\n\t"
	"movq %r15, at_entry+24\n\tmovq %rbp, at_entry+32\n\tmovq %rdi, at_entry+40\n\t"
	"movq %rsi, at_entry+48\n\tmovq %rdx, at_entry+56\n\tmovq %rcx, at_entry+64\n\t"
	"movq %r8, at_entry+72\n\tmovq %r9, at_entry+80\n\tmovq %rsp, at_entry+88\n\t"
	"movq %rax, at_entry+96\n\tmovq %r10, at_entry+104\n\tmovq (%rsp), %rbx\n\t"
	"movq %rbx, at_entry+112\n\t"
	"xorl %ebx, %ebx; xorl %ebp, %ebp; xorl %r12d, %r12d; xorl %r14d, %r14d; xorl %r15d, %r15d\n\t"
	"call jprobe_return\n\tret\n.size look_at_entry, . - look_at_entry\n.popsection");

#define STACK 16384
static char area[2 * STACK];
static long *top, *canary, *last;
static long change_canary(long a, long b, long c, long d, long e, long f)
{
	hits++;
	top[0] = top[2] = last[0] = 77;
	*canary = 78;
	jprobe_return();
	return 0;
}

static void test_registers_at_entry(struct kunit *test)
{
	static const long expected[] = { 11, 12, 14, 15, 10, 1, 2, 3, 4, 5, 6 };
	int way, i;

	for (way = 0; way < 4; way++) {
		suite_init(test);
		jp.entry = look_at_entry;
		probe_six(way & 1);
		if (way & 2)
			KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
		KUNIT_ASSERT_EQ(test, register_jprobe(&jp), 0);
		memset(at_entry, 0, sizeof(at_entry));
		top = (long *)(((unsigned long)area + 2 * STACK - 1) & -STACK) - 512;
		preempt_disable();
		KUNIT_EXPECT_EQ(test, call_checked(top), 0);
		preempt_enable();
		for (i = 0; i < ARRAY_SIZE(expected); i++)
			KUNIT_EXPECT_EQ(test, at_entry[i], expected[i]);
		KUNIT_EXPECT_EQ(test, at_entry[11], (unsigned long)(top - 1));
		EXPECT_EQUAL(at_entry[12], 99, at_entry[13], 100);
		KUNIT_EXPECT_GT(test, (unsigned long)at_entry[14], (unsigned long)call_checked);
		KUNIT_EXPECT_LT(test, (unsigned long)at_entry[14],
				(unsigned long)call_checked + 256);
		unregister_jprobe(&jp);
		unregister_kprobe(&kp);
	}
}

/*
 * The saved part of the stack is put back, 64 bytes from the return address on, but not beyond
 * the end of the stack: other memory lies there.
 */
static void test_end_of_the_stack(struct kunit *test)
{
	int i, bytes;

	for (i = 0; i < 4; i++) {
		suite_init(test);
		jp.entry = change_canary;
		probe_six(i & 1);
		bytes = i & 2 ? 4096 : 32; /* above the frame of the call */
		canary = (long *)(((unsigned long)area + 2 * STACK - 1) & -STACK);
		top = canary - bytes / 8;
		canary = i & 2 ? top + 7 : canary; /* the first that is not saved */
		last = canary - 1;                 /* that is saved */
		memset(top, 0, 32);
		*last = 0;
		*canary = 1;
		KUNIT_ASSERT_EQ(test, register_jprobe(&jp), 0);
		preempt_disable();
		KUNIT_EXPECT_EQ(test, call_checked(top), 0);
		preempt_enable();
		unregister_jprobe(&jp);
		EXPECT_EQUAL(hits, 1, top[0], 0, top[2], 0, *last, 0);
		KUNIT_EXPECT_EQ(test, *canary, 78);
	}
}

static void test_stack_is_put_back(struct kunit *test)
{
	jp.kp.symbol_name = "nine";
	jp.entry = my_nine;
	KUNIT_ASSERT_EQ(test, register_jprobe(&jp), 0);
	KUNIT_EXPECT_EQ(test, nine(1, 1, 1, 1, 1, 1, 7, 8, 9), 6 + 70 + 800 + 9000);
	EXPECT_EQUAL(hits, 1, got[6], 7, got[8], 9);
	unregister_jprobe(&jp);
}

static void test_breakpoint(struct kunit *test)
{
	probe_six(true);
	jp.kp.post_handler = post;
	KUNIT_ASSERT_EQ(test, register_jprobe(&jp), 0);
	KUNIT_EXPECT_EQ(test, *(u8 *)jp.kp.addr, 0xcc);
	EXPECT_EQUAL(bare(1, 2, 3, 4, 5, 6), 91, hits, 1, post_hits, 1);
	unregister_jprobe(&jp);
}

static void test_entry(struct kunit *test)
{
	jp.entry = NULL;
	KUNIT_EXPECT_EQ(test, register_jprobe(&jp), -EINVAL);
	jp.entry = (char *)my_six + 1;
	KUNIT_EXPECT_EQ(test, register_jprobe(&jp), -EINVAL);
	jp.entry = my_six;
	jp.kp.symbol_name = "no_such_function";
	KUNIT_EXPECT_EQ(test, register_jprobe(&jp), -ENOENT);
	jp.kp.symbol_name = "six";
	jp.kp.offset = 5;
	KUNIT_EXPECT_EQ(test, register_jprobe(&jp), -EINVAL);
}

/* Called with the carry flag set: return 1 if it still is. */
__asm__(".pushsection .text\n.type keeps_flags, @function\nkeeps_flags:\n\t"
	"nopl 64(%rax)\n\tsbbq %rax, %rax\n\tnegq %rax\n\tret\n"
	".size keeps_flags, . - keeps_flags\n.popsection");
static long call_with_carry(void)
{
	long set;

	__asm__ __volatile__("stc\n\tcall keeps_flags" : "=a"(set) : : "cc", "memory");
	return set;
}
static long clear_flags(void)
{
	hits++;
	jprobe_return(); /* behind an addition: no carry */
	return 0;
}

static void test_flags(struct kunit *test)
{
	int way;

	for (way = 0; way < 3; way++) {
		jp.kp.symbol_name = kp.symbol_name = "keeps_flags";
		jp.entry = clear_flags;
		jp.kp.post_handler = way > 1 ? post : NULL;
		if (way)
			KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
		KUNIT_ASSERT_EQ(test, register_jprobe(&jp), 0);
		KUNIT_EXPECT_EQ(test, call_with_carry(), 1);
		KUNIT_EXPECT_TRUE(test, preemptible());
		KUNIT_EXPECT_EQ(test, hits, way + 1);
		unregister_jprobe(&jp);
		unregister_kprobe(&kp);
		KP_CLEAR(jp.kp);
		KP_CLEAR(kp);
	}
}

/* One jprobe at an address, any number of others. */
static void test_colocated(struct kunit *test)
{
	KUNIT_ASSERT_EQ(test, register_jprobe(&jp), 0);
	KUNIT_EXPECT_EQ(test, register_jprobe(&jp2), -EEXIST);
	KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
	KP_CLEAR(jp2.kp);
	KUNIT_EXPECT_EQ(test, register_jprobe(&jp2), -EEXIST);
	EXPECT_EQUAL(six(1, 2, 3, 4, 5, 6), 91, hits, 1, pre_hits, 1);
	unregister_jprobe(&jp);
	KP_CLEAR(jp2.kp);
	KUNIT_EXPECT_EQ(test, register_jprobe(&jp2), 0);
	EXPECT_EQUAL(six(1, 2, 3, 4, 5, 6), 91, hits, 2, pre_hits, 2);
	unregister_kprobe(&kp);
	unregister_jprobe(&jp2);
}

static void test_batch_and_switch(struct kunit *test)
{
	struct jprobe *jps[] = { &jp, &jp2 };

	KUNIT_EXPECT_EQ(test, register_jprobes(jps, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, register_jprobes(jps, 2), -EEXIST);
	EXPECT_EQUAL(six(1, 2, 3, 4, 5, 6), 91, hits, 0);
	KP_CLEAR(jp.kp);
	KP_CLEAR(jp2.kp);
	jp2.kp.symbol_name = "nine";
	jp2.entry = my_nine;
	KUNIT_ASSERT_EQ(test, register_jprobes(jps, 2), 0);
	six(1, 2, 3, 4, 5, 6);
	EXPECT_EQUAL(nine(1, 1, 1, 1, 1, 1, 7, 8, 9), 9876, hits, 2);
	EXPECT_EQUAL(disable_jprobe(&jp), 0, six(1, 2, 3, 4, 5, 6), 91, hits, 2);
	EXPECT_EQUAL(enable_jprobe(&jp), 0, six(1, 2, 3, 4, 5, 6), 91, hits, 3);
	unregister_jprobes(jps, 2);
	/* registered disabled; one that is not registered has its addr cleared, the other goes */
	KP_CLEAR(jp.kp);
	jp.kp.flags = KPROBE_FLAG_DISABLED;
	KUNIT_ASSERT_EQ(test, register_jprobe(&jp), 0);
	EXPECT_EQUAL(six(1, 2, 3, 4, 5, 6), 91, hits, 3);
	EXPECT_EQUAL(enable_jprobe(&jp), 0, six(1, 2, 3, 4, 5, 6), 91, hits, 4);
	swap(jps[0], jps[1]);
	unregister_jprobes(jps, 2);
	KUNIT_EXPECT_NULL(test, jp2.kp.addr);
	KUNIT_EXPECT_PTR_EQ(test, jp.kp.addr, six);
	EXPECT_EQUAL(six(1, 2, 3, 4, 5, 6), 91, hits, 4);
	EXPECT_EQUAL(enable_jprobe(&jp), -EINVAL, disable_jprobe(&jp), -EINVAL);
}

static long call_other(long a, long b, long c, long d, long e, long f)
{
	hits++;
	got[0] = other(1);
	jprobe_return();
	return 0;
}

/* While the entry function runs, its probe is being handled. */
static void test_missed_inside(struct kunit *test)
{
	jp.entry = call_other;
	kp.symbol_name = "other";
	KUNIT_ASSERT_EQ(test, register_jprobe(&jp) ?: register_kprobe(&kp), 0);
	EXPECT_EQUAL(six(1, 2, 3, 4, 5, 6), 91, got[0], 2, pre_hits, 0, kp.nmissed, 1);
	EXPECT_EQUAL(other(1), 2, pre_hits, 1);
	unregister_jprobe(&jp);
	unregister_kprobe(&kp);
}

static int trap(struct kprobe *p, struct pt_regs *regs)
{
	__asm__ __volatile__("int3" : : : "memory");
	pre_hits++;
	return 0;
}

static struct pt_regs at_hit;
static int remember_and_trap(struct kprobe *p, struct pt_regs *regs)
{
	at_hit = *regs;
	return trap(p, regs);
}

/* A breakpoint in a handler: the break_handler ends it, as jprobe_return() does. */
static int give_up(struct kprobe *p, struct pt_regs *regs)
{
	hits++;
	*regs = at_hit;
	return 1;
}

static void test_break_handler(struct kunit *test)
{
	kp.pre_handler = remember_and_trap;
	kp.break_handler = give_up;
	KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
	EXPECT_EQUAL(six(1, 2, 3, 4, 5, 6), 91, hits, 1, pre_hits, 0);
	KUNIT_EXPECT_EQ(test, register_jprobe(&jp), -EEXIST);
	KUNIT_EXPECT_TRUE(test, preemptible());
	unregister_kprobe(&kp);
}

static int die_calls, die_order[4];
static int debugger(struct notifier_block *nb, unsigned long val, void *data)
{
	struct die_args *args = data;

	if (val != DIE_INT3)
		return NOTIFY_DONE;
	die_order[die_calls++ & 3] = nb->priority;
	args->regs->ax = 4711;
	return NOTIFY_STOP;
}
static int onlooker(struct notifier_block *nb, unsigned long val, void *data)
{
	if (val == DIE_INT3)
		die_order[die_calls++ & 3] = nb->priority;
	return NOTIFY_DONE;
}
static struct notifier_block dbg = { .notifier_call = debugger, .priority = 1 };
static struct notifier_block look = { .notifier_call = onlooker, .priority = INT_MAX };

PRE(decline, hits++)

/* Traps that are none of kprobes go on to the next notifiers, by priority. */
static void test_notifier_chain(struct kunit *test)
{
	long v = 0;

	KUNIT_ASSERT_EQ(test, register_die_notifier(&dbg) ?: register_die_notifier(&look), 0);
	die_calls = 0;
	__asm__ __volatile__("int3" : "+a"(v) : : "memory");
	EXPECT_EQUAL(v, 4711, die_calls, 2, die_order[0], INT_MAX, die_order[1], 1);
	/* that of a probe is seen by kprobes alone */
	kp.offset = 5;
	KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
	EXPECT_EQUAL(six(1, 2, 3, 4, 5, 6), 91, pre_hits, 1, die_calls, 2);
	remove_kprobe(&kp);
	/* one in a handler first by its break_handler, if there is one */
	kp.pre_handler = trap;
	kp.break_handler = decline;
	die_calls = 0;
	KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
	EXPECT_EQUAL(six(1, 2, 3, 4, 5, 6), 91, hits, 1, die_calls, 2, pre_hits, 2);
	EXPECT_EQUAL(six(1, 2, 3, 4, 5, 6), 91, hits, 2, die_calls, 4);
	unregister_kprobe(&kp);
	unregister_die_notifier(&look);
	unregister_die_notifier(&dbg);
}

SUITE(jprobe, suite_init, KUNIT_CASE(test_arguments), KUNIT_CASE(test_stack_is_put_back),
      KUNIT_CASE(test_registers_at_entry), KUNIT_CASE(test_end_of_the_stack),
      KUNIT_CASE(test_breakpoint), KUNIT_CASE(test_entry), KUNIT_CASE(test_flags),
      KUNIT_CASE(test_colocated), KUNIT_CASE(test_batch_and_switch), KUNIT_CASE(test_missed_inside),
      KUNIT_CASE(test_break_handler), KUNIT_CASE(test_notifier_chain));
