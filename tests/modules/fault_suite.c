// SPDX-License-Identifier: GPL-2.0-or-later
/* Faults in handlers and in probed instructions. */
#include <linux/uaccess.h>
#include "targets.h"

#define NOWHERE 0x10UL
#define NONCANONICAL 0x8000000000000000UL
static long value = 41;
TARGET long load(long *p)
{
	return *p + 1;
}
/* Without a nop at its entry: probed by a breakpoint. */
notrace TARGET long bare_load(long *p)
{
	return *p + 1;
}
#define DIVIDE_AT 9
TARGET long divide(long a, long b)
{
	long result;

	/* the idiv is at DIVIDE_AT: two instructions of two bytes stand before it */
	__asm__ __volatile__("xchgq %%rdi, %%rax\n\tcqto\n\tidivq %%rsi"
			     : "=a"(result), "+D"(a)
			     : "S"(b)
			     : "rdx");
	return result;
}

static int faults, last_trap, pre_hits;
static unsigned long fault_ip;
static struct kprobe *fault_kp;
static struct kprobe kp, kp2;

static int fixable(struct kprobe *p, struct pt_regs *regs, int trapnr)
{
	faults++;
	last_trap = trapnr;
	fault_ip = regs->ip;
	fault_kp = p;
	return 0;
}

static int point_elsewhere(struct kprobe *p, struct pt_regs *regs, int trapnr)
{
	fixable(p, regs, trapnr);
	regs->di = (unsigned long)&value;
	return 1;
}

/* "mov disp32, %reg" of NOWHERE: eight bytes */
static int skip_load(struct kprobe *p, struct pt_regs *regs, int trapnr)
{
	fixable(p, regs, trapnr);
	regs->ip += 8;
	regs->ax = 123;
	return 1;
}

static long loaded;
static int bad_handler(struct kprobe *p, struct pt_regs *regs)
{
	pre_hits++;
	__asm__ __volatile__("movq 0x10, %0" : "=a"(loaded) : : "memory");
	return 0;
}

PRE(pre, pre_hits++)

static int suite_init(struct kunit *test)
{
	memset(&kp, 0, sizeof(kp));
	memset(&kp2, 0, sizeof(kp2));
	kp.symbol_name = kp2.symbol_name = "load";
	kp.pre_handler = kp2.pre_handler = pre;
	faults = pre_hits = 0;
	fault_kp = NULL;
	return 0;
}

static void test_in_handler(struct kunit *test)
{
	int offset;

	for (offset = 0; offset <= 5; offset += 5) {
		kp.offset = offset;
		kp.pre_handler = bad_handler;
		kp.fault_handler = skip_load;
		loaded = 0;
		KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
		KUNIT_EXPECT_EQ(test, load(&value), 42);
		unregister_kprobe(&kp);
		KUNIT_EXPECT_EQ(test, loaded, 123);
		KP_CLEAR(kp);
	}
	EXPECT_EQUAL(faults, 2, last_trap, 14);
	KUNIT_EXPECT_PTR_EQ(test, fault_kp, &kp);
}

/* The instruction is run from a copy; the handler sees the probed address. */
static void test_in_instruction(struct kunit *test)
{
	kp.offset = 5;
	kp.fault_handler = point_elsewhere;
	KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
	EXPECT_EQUAL(load((long *)NOWHERE), 42, faults, 1, last_trap, 14);
	KUNIT_EXPECT_EQ(test, fault_ip, (unsigned long)kp.addr);
	EXPECT_EQUAL(load((long *)NONCANONICAL), 42, faults, 2, last_trap, 13);
	EXPECT_EQUAL(load(&value), 42, faults, 2);
	unregister_kprobe(&kp);
}

static int divide_by_two(struct kprobe *p, struct pt_regs *regs, int trapnr)
{
	fixable(p, regs, trapnr);
	regs->si = 2;
	return 1;
}

static int skip_two(struct kprobe *p, struct pt_regs *regs, int trapnr)
{
	fixable(p, regs, trapnr);
	regs->ip += 2;
	return 1;
}

static int undefined(struct kprobe *p, struct pt_regs *regs)
{
	pre_hits++;
	__asm__ __volatile__("ud2" : : : "memory");
	return 0;
}

static int by_zero(struct kprobe *p, struct pt_regs *regs)
{
	pre_hits++;
	__asm__ __volatile__("xorl %%ecx, %%ecx; divl %%ecx" : : : "rax", "rcx", "rdx", "memory");
	return 0;
}

/* Traps other than page faults and #GP: 0 of a division, 6 of ud2. */
static void test_trap_numbers(struct kunit *test)
{
	static const kprobe_pre_handler_t bad[] = { by_zero, undefined };
	int i;

	kp.symbol_name = "divide";
	kp.offset = DIVIDE_AT;
	kp.fault_handler = divide_by_two;
	KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
	last_trap = -1;
	EXPECT_EQUAL(divide(10, 0), 5, last_trap, 0);
	KUNIT_EXPECT_EQ(test, fault_ip, (unsigned long)kp.addr);
	unregister_kprobe(&kp);
	for (i = 0; i < 4; i++) {
		KP_CLEAR(kp);
		kp.offset = i & 1 ? 5 : 0;
		kp.pre_handler = bad[i / 2];
		kp.fault_handler = skip_two;
		last_trap = -1;
		pre_hits = 0;
		KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
		EXPECT_EQUAL(divide(10, 5), 2, pre_hits, 1, last_trap, i / 2 ? 6 : 0);
		unregister_kprobe(&kp);
	}
}

/* In the instruction of several probes each is asked, the newest first, until one mends it. */
static int asked[4], nr_asked;
static int note_and_decline(struct kprobe *p, struct pt_regs *regs, int trapnr)
{
	asked[nr_asked++ & 3] = p == &kp2;
	return 0;
}
static int note_and_mend(struct kprobe *p, struct pt_regs *regs, int trapnr)
{
	note_and_decline(p, regs, trapnr);
	regs->di = (unsigned long)&value;
	return 1;
}

static void test_instruction_of_several(struct kunit *test)
{
	kp.offset = kp2.offset = 5;
	kp.fault_handler = note_and_mend;
	kp2.fault_handler = note_and_decline;
	KUNIT_ASSERT_EQ(test, register_kprobe(&kp) ?: register_kprobe(&kp2), 0);
	nr_asked = 0;
	EXPECT_EQUAL(load((long *)NOWHERE), 42, nr_asked, 2, asked[0], 1, asked[1], 0);
	unregister_kprobe(&kp2);
	/* the newest has no handler, or is disabled */
	KP_CLEAR(kp2);
	kp2.fault_handler = NULL;
	KUNIT_ASSERT_EQ(test, register_kprobe(&kp2), 0);
	EXPECT_EQUAL(load((long *)NOWHERE), 42, nr_asked, 3);
	remove_kprobe(&kp2);
	kp2.fault_handler = note_and_decline;
	kp2.flags = KPROBE_FLAG_DISABLED;
	KUNIT_ASSERT_EQ(test, register_kprobe(&kp2), 0);
	EXPECT_EQUAL(load((long *)NOWHERE), 42, nr_asked, 4, asked[3], 0);
	unregister_kprobe(&kp);
	unregister_kprobe(&kp2);
}

/* With several probes at one address, the handler of the faulting one is asked. */
static void test_colocated(struct kunit *test)
{
	kp.pre_handler = bad_handler;
	kp.fault_handler = skip_load;
	kp2.fault_handler = fixable;
	KUNIT_ASSERT_EQ(test, register_kprobe(&kp) ?: register_kprobe(&kp2), 0);
	EXPECT_EQUAL(load(&value), 42, pre_hits, 2, faults, 1);
	KUNIT_EXPECT_PTR_EQ(test, fault_kp, &kp);
	unregister_kprobe(&kp);
	unregister_kprobe(&kp2);
}

/* One in any other handler is that handler's probe's too. */
POST(bad_post, bad_handler(p, regs))
static int bad_node(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	return bad_handler(NULL, regs);
}
static long bad_entry(long *p)
{
	bad_handler(NULL, NULL);
	jprobe_return();
	return 0;
}
static struct kretprobe rp;
static struct jprobe jp;

static void test_in_other_handlers(struct kunit *test)
{
	int i;

	for (i = 0; i < 8; i++) {
		suite_init(test);
		if (i < 2) {
			kp.offset = i & 1 ? 5 : 0;
			kp.post_handler = bad_post;
			kp.fault_handler = skip_load;
			KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
		} else if (i < 4) {
			memset(&jp, 0, sizeof(jp));
			jp.entry = bad_entry;
			jp.kp.symbol_name = i & 1 ? "bare_load" : "load";
			jp.kp.fault_handler = skip_load;
			KUNIT_ASSERT_EQ(test, register_jprobe(&jp), 0);
		} else {
			memset(&rp, 0, sizeof(rp));
			*(i & 1 ? &rp.handler : &rp.entry_handler) = bad_node;
			rp.kp.symbol_name = "load";
			rp.kp.fault_handler = skip_load;
			KUNIT_ASSERT_EQ(test, register_kretprobe(&rp), 0);
			/* the last to have been handled before the return */
			kp2.offset = 5;
			KUNIT_ASSERT_EQ(test, register_kprobe(&kp2), 0);
		}
		loaded = 0;
		EXPECT_EQUAL(i == 3 ? bare_load(&value) : load(&value), 42, loaded, 123, faults, 1);
		KUNIT_EXPECT_PTR_EQ(test, fault_kp, i < 2 ? &kp : i < 4 ? &jp.kp : &rp.kp);
		unregister_kprobe(&kp);
		unregister_kprobe(&kp2);
		unregister_jprobe(&jp);
		unregister_kretprobe(&rp);
	}
}

static long copied;
static int copy_handler(struct kprobe *p, struct pt_regs *regs)
{
	char buf[8];

	copied = copy_from_kernel_nofault(buf, (void *)0xffffffffa0000000UL, 8);
	pre_hits++;
	return 0;
}

/* With 0, or without a handler, the exception table is next. */
static void test_exception_table(struct kunit *test)
{
	kp.pre_handler = copy_handler;
	copied = 0;
	KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
	EXPECT_EQUAL(load(&value), 42, copied, -EFAULT);
	remove_kprobe(&kp);
	kp.fault_handler = fixable;
	copied = 0;
	KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
	EXPECT_EQUAL(load(&value), 42, copied, -EFAULT);
	KUNIT_EXPECT_GT(test, faults, 0);
	KUNIT_EXPECT_EQ(test, pre_hits, 2);
	unregister_kprobe(&kp);
	KUNIT_EXPECT_EQ(test, copy_from_kernel_nofault(&copied, (void *)0xffffffffa0000000UL, 8),
			-EFAULT);
}

/* A fault in a fault_handler is the exception table's. */
static int faulty_fault_handler(struct kprobe *p, struct pt_regs *regs, int trapnr)
{
	copy_handler(p, regs);
	return skip_load(p, regs, trapnr);
}

static void test_fault_in_fault_handler(struct kunit *test)
{
	kp.pre_handler = bad_handler;
	kp.fault_handler = faulty_fault_handler;
	copied = loaded = 0;
	KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
	EXPECT_EQUAL(load(&value), 42, loaded, 123, copied, -EFAULT, faults, 1);
	unregister_kprobe(&kp);
}

/* The faulting probe declines: nobody asks the others of its address, older or newer. */
static void test_colocated_declines(struct kunit *test)
{
	int offset, older;

	for (offset = 0; offset <= 5; offset += 5) {
		for (older = 0; older < 2; older++) {
			suite_init(test);
			kp.offset = kp2.offset = offset;
			(older ? &kp : &kp2)->pre_handler = copy_handler;
			(older ? &kp : &kp2)->fault_handler = fixable;
			(older ? &kp2 : &kp)->fault_handler = skip_load;
			KUNIT_ASSERT_EQ(test, register_kprobe(&kp) ?: register_kprobe(&kp2), 0);
			copied = 0;
			EXPECT_EQUAL(load(&value), 42, copied, -EFAULT);
			KUNIT_EXPECT_GT(test, faults, 0);
			KUNIT_EXPECT_PTR_EQ(test, fault_kp, older ? &kp : &kp2);
			unregister_kprobe(&kp);
			unregister_kprobe(&kp2);
		}
	}
}

/* A WARN in a handler is no fault. */
static int warn_handler(struct kprobe *p, struct pt_regs *regs)
{
	WARN_ON(1);
	pre_hits++;
	return 0;
}

static void test_warning(struct kunit *test)
{
	kp.pre_handler = warn_handler;
	kp.fault_handler = skip_load;
	KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
	EXPECT_EQUAL(load(&value), 42, faults, 0, pre_hits, 1);
	unregister_kprobe(&kp);
}

SUITE(fault, suite_init, KUNIT_CASE(test_in_handler), KUNIT_CASE(test_in_instruction),
      KUNIT_CASE(test_trap_numbers), KUNIT_CASE(test_instruction_of_several),
      KUNIT_CASE(test_colocated), KUNIT_CASE(test_in_other_handlers),
      KUNIT_CASE(test_exception_table), KUNIT_CASE(test_colocated_declines),
      KUNIT_CASE(test_fault_in_fault_handler), KUNIT_CASE(test_warning));
