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
static void test_order(struct kunit *test)
{
	each(test, one_order);
}

static void one_change(struct kunit *test, int way)
{
	put(test, change, change);
	KUNIT_EXPECT_EQ(test, target(3), 51);
	KUNIT_EXPECT_EQ(test, afters, 2);
	KUNIT_EXPECT_EQ(test, returned_value, 51);
	take_away();
}
static void test_changed_registers(struct kunit *test)
{
	each(test, one_change);
}

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
static void test_skipped(struct kunit *test)
{
	each(test, one_skip);
}

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
static void test_disabled(struct kunit *test)
{
	each(test, one_disabled);
}

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
static void test_entry_handler(struct kunit *test)
{
	each(test, one_refusal);
}

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
static void test_nested(struct kunit *test)
{
	each(test, one_nested);
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
	KUNIT_EXPECT_EQ(test, recursive(4), 10);
	KUNIT_EXPECT_EQ(test, befores, 5);
	KUNIT_EXPECT_EQ(test, afters, 5);
	KUNIT_EXPECT_EQ(test, returns, 2);
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
static void one_sum(struct kunit *test, int way)
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
	KUNIT_EXPECT_EQ(test, sum, 0x876543211);
	KUNIT_EXPECT_EQ(test, afters, 2);
	KUNIT_EXPECT_EQ(test, returned_value, 0x876543211);
	KUNIT_EXPECT_FALSE(test, irqs_disabled());
	take_away();
}
static void test_registers_kept(struct kunit *test)
{
	each(test, one_sum);
}

/* The function is not run at all: back to its caller, with its stack. */
static int leave(struct kprobe *p, struct pt_regs *regs)
{
	regs->ax = 55;
	regs->ip = *(unsigned long *)regs->sp;
	regs->sp += sizeof(long);
	return 1;
}

static void one_left(struct kunit *test, int way)
{
	put(test, leave, after);
	KUNIT_EXPECT_EQ(test, target(3), 55);
	KUNIT_EXPECT_EQ(test, target(4), 55);
	KUNIT_EXPECT_EQ(test, afters + returns, 0);
	KUNIT_EXPECT_TRUE(test, preemptible());
	take_away();
	put(test, before, leave); /* by way of the return probe */
	KUNIT_EXPECT_EQ(test, target(3), 55);
	KUNIT_EXPECT_EQ(test, returned_value, 55);
	take_away();
}
static void test_left(struct kunit *test)
{
	each(test, one_left);
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
	KUNIT_EXPECT_EQ(test, moved, -8 - 64);
	KUNIT_EXPECT_EQ(test, afters, 1);
	KUNIT_EXPECT_EQ(test, returns, 1);
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
static void one_break(struct kunit *test, int way)
{
	newer.break_handler = give_up;
	put(test, trap, after);
	KUNIT_EXPECT_EQ(test, target(3), 31);
	KUNIT_EXPECT_EQ(test, befores, 1);
	KUNIT_EXPECT_EQ(test, afters, 1);
	KUNIT_EXPECT_EQ(test, returns, 1);
	KUNIT_EXPECT_NULL(test, kprobe_running());
	KUNIT_EXPECT_TRUE(test, preemptible());
	take_away();
}
static void test_break_handler(struct kunit *test)
{
	each(test, one_break);
}

#define MANY 7
static struct kprobe many[MANY];
static struct kretprobe many_rp[2];
static int many_hits, many_returns;
static int count_hit(struct kprobe *p, struct pt_regs *regs)
{
	many_hits++;
	return 0;
}
static int count_return(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	many_returns++;
	return 0;
}

/* More and more probes, then fewer: each is hit once. */
static void one_many(struct kunit *test, int way)
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
			KUNIT_EXPECT_EQ(test, target(3), 31);
			KUNIT_EXPECT_EQ(test, many_hits, i + 1);
			KUNIT_EXPECT_EQ(test, many_returns, krets);
			many_hits = many_returns = 0;
		}
		for (i = MANY - 1; i >= 0; i--) {
			unregister_kprobe(&many[i]);
			KUNIT_EXPECT_EQ(test, target(3), 31);
			KUNIT_EXPECT_EQ(test, many_hits, i);
			KUNIT_EXPECT_EQ(test, many_returns, krets);
			many_hits = many_returns = 0;
		}
		for (i = 0; i < krets; i++)
			unregister_kretprobe(&many_rp[i]);
	}
}
static void test_many(struct kunit *test)
{
	each(test, one_many);
}

static struct kunit_case cases[] = { KUNIT_CASE(test_order),
				     KUNIT_CASE(test_changed_registers),
				     KUNIT_CASE(test_skipped),
				     KUNIT_CASE(test_disabled),
				     KUNIT_CASE(test_entry_handler),
				     KUNIT_CASE(test_nested),
				     KUNIT_CASE(test_no_instance),
				     KUNIT_CASE(test_registers_kept),
				     KUNIT_CASE(test_left),
				     KUNIT_CASE(test_moved),
				     KUNIT_CASE(test_break_handler),
				     KUNIT_CASE(test_many),
				     {} };
static struct kunit_suite suite = { .name = "beside", .init = suite_init, .test_cases = cases };
kunit_test_suite(suite);
MODULE_LICENSE("GPL");
