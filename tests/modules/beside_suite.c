// SPDX-License-Identifier: GPL-2.0-or-later
/* A return probe beside kprobes at one entry: by breakpoint, by ftrace. */
#include "targets.h"

notrace TARGET long plain(long x)
{
	return x * 10 + 1;
}
TARGET long traced(long x)
{
	return x * 10 + 1;
}
static long instead(long x)
{
	return 77;
}

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

static int refuse(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	return 1;
}

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
	KUNIT_ASSERT_EQ(test, register_kprobe(&older) ?: register_kretprobe(&rp), 0);
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

/* Define a case by what it does for one way in. */
#define EACH_WAY(name)								\
	static void name##_by(struct kunit *test, int way);			\
	static void name(struct kunit *test)					\
	{									\
		each(test, name##_by);						\
	}									\
	static void name##_by(struct kunit *test, int way)

EACH_WAY(test_order)
{
	put(test, before, after);
	KUNIT_EXPECT_EQ(test, target(3), 31);
	EXPECT_EQUAL(target(4), 41, befores, 2, afters, 2, returns, 2);
	KUNIT_EXPECT_EQ(test, returned_value, 41);
	KUNIT_EXPECT_TRUE(test, is_running);
	EXPECT_EQUAL(in_irq_off, way ? 0 : 2, in_preemptible, 0);
	KUNIT_EXPECT_EQ(test, seen_ip, (unsigned long)target + 1);
	KUNIT_EXPECT_EQ(test, seen_di, 4);
	KUNIT_EXPECT_NE(test, seen_ret[0], seen_ret[1]);
	KUNIT_EXPECT_NULL(test, kprobe_running());
	KUNIT_EXPECT_TRUE(test, preemptible());
	take_away();
	EXPECT_EQUAL(target(3), 31, returns, 2);
}

EACH_WAY(test_changed_registers)
{
	put(test, change, change);
	EXPECT_EQUAL(target(3), 51, afters, 2, returned_value, 51);
	take_away();
}

EACH_WAY(test_skipped)
{
	put(test, skip, after);
	EXPECT_EQUAL(target(3), 77, afters, 0, returns, 0);
	KUNIT_EXPECT_NULL(test, kprobe_running());
	KUNIT_EXPECT_TRUE(test, preemptible());
	take_away();
	put(test, before, skip);
	EXPECT_EQUAL(target(3), 77, befores, 1, returned_value, 77);
	take_away();
}

EACH_WAY(test_disabled)
{
	put(test, before, after);
	EXPECT_EQUAL(disable_kprobe(&newer), 0, target(1), 11, befores, 0, afters + returns, 2);
	EXPECT_EQUAL(disable_kretprobe(&rp), 0, target(1), 11, afters, 2, returns, 1);
	EXPECT_EQUAL(enable_kprobe(&newer), 0, enable_kretprobe(&rp), 0);
	EXPECT_EQUAL(target(1), 11, befores, 1, returns, 2);
	take_away();
}

EACH_WAY(test_entry_handler)
{
	rp.entry_handler = refuse;
	put(test, before, after);
	EXPECT_EQUAL(target(3), 31, befores + afters, 2, returns, 0, seen_ret[0], seen_ret[1]);
	take_away();
}

/* A hit by a handler is missed by all. */
EACH_WAY(test_nested)
{
	put(test, nested, after);
	EXPECT_EQUAL(target(3), 31, befores, 1, afters, 1, returns, 1);
	EXPECT_EQUAL(newer.nmissed, 1, older.nmissed, 1, rp.kp.nmissed, 1);
	take_away();
}

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
	EXPECT_EQUAL(recursive(4), 10, befores, 5, afters, 5, returns, 2);
	KUNIT_EXPECT_EQ(test, rp.nmissed, 3);
	take_away();
}

/* rax = CF + the sum of the registers that a call may change */
asm(".macro SUMS name nop:vararg\n"
    "\\name:\n\t\\nop\n\tmovq $0, %rax\n"
    ".irp reg, rcx, rdx, rsi, rdi, r8, r9, r10, r11\n\tadcq %\\reg, %rax\n.endr\n"
    "\tret\n\t.type \\name, @function\n\t.size \\name, . - \\name\n.endm\n"
    "\t.text\n\tSUMS sums\n"
    "\tSUMS traced_sums, 7: .byte 0x0f, 0x1f, 0x44, 0, 0\n"
    "\t.pushsection __mcount_loc, \"a\"\n\t.quad 7b\n\t.popsection");
long sums(long), traced_sums(long);

static int clobber(struct kprobe *p, struct pt_regs *regs)
{
	afters++;
	asm volatile("xorl %%eax, %%eax"
		     :
		     :
		     : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "cc");
	asm volatile(
		"movq $-1, %%rcx\n\tmovq %%rcx, %%rdx\n\tmovq %%rcx, %%rsi\n\tmovq %%rcx, %%r8\n\t"
		"movq %%rcx, %%r9\n\tmovq %%rcx, %%r10\n\tmovq %%rcx, %%r11\n\ttestq %%rcx, %%rcx"
		:
		:
		: "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "cc");
	return 0;
}

/* A probed function gets all registers and flags as they were. */
EACH_WAY(test_registers_kept)
{
	long sum;

	target = way ? traced_sums : sums;
	put(test, clobber, clobber);
	asm volatile("movl $0x10, %%ecx\n\tmovl $0x200, %%edx\n\tmovl $0x3000, %%esi\n\t"
		     "movl $0x40000, %%edi\n\tmovl $0x500000, %%r8d\n\tmovl $0x6000000, %%r9d\n\t"
		     "movl $0x70000000, %%r10d\n\tmovabsq $0x800000000, %%r11\n\tstc\n\tcall *%1"
		     : "=a"(sum)
		     : "b"(target)
		     : "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "cc", "memory");
	EXPECT_EQUAL(sum, 0x876543211, afters, 2, returned_value, 0x876543211);
	KUNIT_EXPECT_FALSE(test, irqs_disabled());
	take_away();
}

/* The function is not run at all: back to its caller, with its stack. */
static int leave(struct kprobe *p, struct pt_regs *regs)
{
	regs->ax = 55;
	regs->ip = *(unsigned long *)regs->sp;
	regs->sp += sizeof(long);
	return 1;
}

EACH_WAY(test_left)
{
	put(test, leave, after);
	KUNIT_EXPECT_EQ(test, target(3), 55);
	EXPECT_EQUAL(target(4), 55, afters + returns, 0);
	KUNIT_EXPECT_TRUE(test, preemptible());
	take_away();
	put(test, before, leave); /* by way of the return probe */
	EXPECT_EQUAL(target(3), 55, returned_value, 55);
	take_away();
}

/* The function runs 64 bytes further down. */
static int move(struct kprobe *p, struct pt_regs *regs)
{
	unsigned long *sp = (unsigned long *)regs->sp;

	sp[-8] = sp[0];
	regs->sp = (unsigned long)(sp - 8);
	return 0;
}

asm("where:\n\tmovq %rsp, %rax\n\tret\n\t.type where, @function\n\t.size where, . - where");
long where(long);

static void test_moved(struct kunit *test)
{
	long moved;

	target = where;
	put(test, move, after);
	asm volatile("movq %%rsp, %%rbx\n\tcall *%1\n\tsubq %%rbx, %%rax\n\tmovq %%rbx, %%rsp"
		     : "=a"(moved)
		     : "r"(target)
		     : "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "cc", "memory");
	EXPECT_EQUAL(moved, -8 - 64, afters, 1, returns, 1);
	take_away();
}

static struct pt_regs at_hit;
static int trap(struct kprobe *p, struct pt_regs *regs)
{
	at_hit = *regs;
	asm volatile("int3" : : : "memory");
	return 0;
}

static int give_up(struct kprobe *p, struct pt_regs *regs)
{
	befores++;
	*regs = at_hit;
	return 1;
}

/* A break_handler ends the handling; one that has one is the last to be called. */
EACH_WAY(test_break_handler)
{
	newer.break_handler = give_up;
	put(test, trap, after);
	EXPECT_EQUAL(target(3), 31, befores, 1, afters, 1, returns, 1);
	KUNIT_EXPECT_NULL(test, kprobe_running());
	KUNIT_EXPECT_TRUE(test, preemptible());
	take_away();
}

#define MANY 7
static struct kprobe many[MANY];
static struct kretprobe many_rp[2];
static int many_hits, many_returns;
PRE(count_hit, many_hits++)
KRET(count_return, many_returns++)

/* More and more probes, then fewer: each is hit once. */
EACH_WAY(test_many)
{
	int i, krets;

	for (krets = 1; krets <= 2; krets++) {
		memset(many, 0, sizeof(many));
		memset(many_rp, 0, sizeof(many_rp));
		many_hits = many_returns = 0;
		for (i = 0; i < krets; i++) {
			many_rp[i].kp.addr = (kprobe_opcode_t *)target;
			many_rp[i].handler = count_return;
			KUNIT_ASSERT_EQ(test, register_kretprobe(&many_rp[i]), 0);
		}
		for (i = 0; i < MANY; i++) {
			many[i].addr = (kprobe_opcode_t *)target;
			many[i].pre_handler = count_hit;
			KUNIT_ASSERT_EQ(test, register_kprobe(&many[i]), 0);
			EXPECT_EQUAL(target(3), 31, many_hits, i + 1, many_returns, krets);
			many_hits = many_returns = 0;
		}
		for (i = MANY - 1; i >= 0; i--) {
			unregister_kprobe(&many[i]);
			EXPECT_EQUAL(target(3), 31, many_hits, i, many_returns, krets);
			many_hits = many_returns = 0;
		}
		for (i = 0; i < krets; i++)
			unregister_kretprobe(&many_rp[i]);
	}
}

SUITE(beside, suite_init, KUNIT_CASE(test_order), KUNIT_CASE(test_changed_registers),
      KUNIT_CASE(test_skipped), KUNIT_CASE(test_disabled), KUNIT_CASE(test_entry_handler),
      KUNIT_CASE(test_nested), KUNIT_CASE(test_no_instance), KUNIT_CASE(test_registers_kept),
      KUNIT_CASE(test_left), KUNIT_CASE(test_moved), KUNIT_CASE(test_break_handler),
      KUNIT_CASE(test_many));
