// SPDX-License-Identifier: GPL-2.0-or-later
/* Data breakpoints. What is expected a real Linux 6.1 did, in QEMU, but where it says so. */
#include <linux/completion.h>
#include <linux/hw_breakpoint.h>
#include <linux/kthread.h>
#include <linux/perf_event.h>
#include "targets.h"

#define MAX_HITS 16
static u64 watched[8] __aligned(64);
static struct hit {
	struct perf_event *bp;
	unsigned long ip;
	u64 value;
	int cpu, context, irqs_off;
} hits[MAX_HITS];
static int nr_hits;

#define CONTEXT ((void *)7)
static void note(struct perf_event *bp, struct perf_sample_data *data, struct pt_regs *regs)
{
	struct hit *h = &hits[nr_hits++ % MAX_HITS];

	h->bp = bp;
	h->ip = regs->ip;
	h->value = watched[0]; /* not seen by the breakpoint itself */
	h->cpu = data->addr == bp->attr.bp_addr ? smp_processor_id() : -1;
	h->context = preempt_count();
	h->irqs_off = irqs_disabled() && bp->overflow_handler_context == CONTEXT;
}

static struct perf_event_attr attr_at(void *addr, u64 len, u32 type)
{
	struct perf_event_attr attr;

	hw_breakpoint_init(&attr);
	attr.bp_addr = (unsigned long)addr;
	attr.bp_len = len;
	attr.bp_type = type;
	return attr;
}

static struct perf_event * __percpu * set_at(void *addr, u64 len, u32 type)
{
	struct perf_event_attr attr = attr_at(addr, len, type);

	nr_hits = 0;
	return register_wide_hw_breakpoint(&attr, note, CONTEXT);
}

static long error_at(long offset, u64 len, u32 type)
{
	struct perf_event *__percpu *e = set_at((char *)watched + offset, len, type);

	if (IS_ERR((void __force *)e))
		return PTR_ERR((void __force *)e);
	unregister_wide_hw_breakpoint(e);
	return 0;
}

/* The number of reports of the statement x. */
#define HITS(x) ({ nr_hits = 0; x; nr_hits; })

/* Functions of one instruction that touches memory, and the address behind it. */
#define TOUCH(name, insn)							\
	extern char name##_at[], name##_behind[];				\
	TARGET unsigned long name(void *p, unsigned long v);			\
	__asm__(".text; .globl " #name "; .type " #name ", @function; " #name ":"	\
		"nop; nop; nop; " #name "_at: " insn "; " #name "_behind:"	\
		"nop; nop; nop; nop; nop; nop; ret; .size " #name ", . - " #name)
TOUCH(store, "movq %rsi, (%rdi)");
TOUCH(store_byte, "movb %sil, (%rdi)");
TOUCH(load, "movq (%rdi), %rax");
TOUCH(increment, "lock incq (%rdi)");
TOUCH(exchange, "xchgq %rsi, (%rdi)");
TOUCH(compare, "cmpb $0, (%rdi)");

static u64 stack[1024];
TARGET u64 on_stack(u64 *top);
__asm__(".text; .type on_stack, @function; on_stack:"
	"mov %rsp, %rax; mov %rdi, %rsp; pushfq; pop %rdx; push %rdx; popfq;"
	"mov %rax, %rsp; mov %rdx, %rax; ret; .size on_stack, . - on_stack");
TARGET void copy(void *to, void *from, unsigned long n);
__asm__(".text; .type copy, @function; copy: mov %rdx, %rcx; rep movsb; ret;"
	".size copy, . - copy");

static void test_refused(struct kunit *test)
{
	struct perf_event * __percpu * e[HBP_NUM];
	struct perf_event_attr attr = attr_at(watched, 8, HW_BREAKPOINT_W);
	int i;

	KUNIT_EXPECT_EQ(test, error_at(1, 2, HW_BREAKPOINT_W), -EINVAL);
	KUNIT_EXPECT_EQ(test, error_at(2, 4, HW_BREAKPOINT_W), -EINVAL);
	KUNIT_EXPECT_EQ(test, error_at(4, 8, HW_BREAKPOINT_RW), -EINVAL);
	KUNIT_EXPECT_EQ(test, error_at(0, 3, HW_BREAKPOINT_W), -EINVAL);
	KUNIT_EXPECT_EQ(test, error_at(0, 0, HW_BREAKPOINT_W), -EINVAL);
	KUNIT_EXPECT_EQ(test, error_at(0, 16, HW_BREAKPOINT_W), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, error_at(0, 4, HW_BREAKPOINT_R), -EINVAL);
	KUNIT_EXPECT_EQ(test, error_at(0, 4, HW_BREAKPOINT_EMPTY), -EINVAL);
	KUNIT_EXPECT_EQ(test, error_at(0, 4, HW_BREAKPOINT_X), -EINVAL);
	KUNIT_EXPECT_EQ(test, error_at(0, 4, HW_BREAKPOINT_INVALID), -EINVAL);
	KUNIT_EXPECT_EQ(test, error_at((char *)&pcpu_hot - (char *)watched, 8, HW_BREAKPOINT_W),
			-EINVAL);
	KUNIT_EXPECT_EQ(test, error_at(0, 8, HW_BREAKPOINT_W), 0); /* so that there is one: */
	KUNIT_EXPECT_EQ(test,
			error_at(pcpu_hot.debug_stack_top - 8 - (long)watched, 8, HW_BREAKPOINT_W),
			-EINVAL);
	KUNIT_EXPECT_EQ(test, error_at(0x1000 - (long)watched, 4, HW_BREAKPOINT_W), 0);
	KUNIT_EXPECT_EQ(test, error_at(-8 - (long)watched, 8, HW_BREAKPOINT_W), 0);

	for (i = 0; i < HBP_NUM; i++)
		KUNIT_ASSERT_FALSE(
			test, IS_ERR((void *)(e[i] = set_at(watched + i, 8, HW_BREAKPOINT_W))));
	KUNIT_EXPECT_EQ(test, error_at(32, 8, HW_BREAKPOINT_W), -ENOSPC);
	/* the slot is asked for first */
	KUNIT_EXPECT_EQ(test, error_at(1, 8, HW_BREAKPOINT_W), -ENOSPC);
	unregister_wide_hw_breakpoint(e[1]);
	KUNIT_EXPECT_EQ(test, error_at(32, 8, HW_BREAKPOINT_W), 0);
	for (i = 0; i < HBP_NUM; i++)
		KUNIT_EXPECT_EQ(test, HITS(store(watched + i, 1)), i != 1);
	for (i = 0; i < HBP_NUM; i++)
		if (i != 1)
			unregister_wide_hw_breakpoint(e[i]);

	KUNIT_EXPECT_EQ(
		test,
		PTR_ERR(perf_event_create_kernel_counter(&attr, nr_cpu_ids, NULL, note, NULL)),
		-EINVAL);
	attr.exclude_kernel = 1;
	KUNIT_EXPECT_EQ(test, PTR_ERR(perf_event_create_kernel_counter(&attr, 0, NULL, note, NULL)),
			-EINVAL);
	attr.type = PERF_TYPE_SOFTWARE;
	KUNIT_EXPECT_EQ(test, PTR_ERR(perf_event_create_kernel_counter(&attr, 0, NULL, note, NULL)),
			-ENOENT);
}

static void test_writes(struct kunit *test)
{
	struct perf_event *__percpu *e = set_at(watched, 8, HW_BREAKPOINT_W);
	struct hit *h = hits;

	KUNIT_EXPECT_EQ(test, HITS(store(watched, 3)), 1);
	KUNIT_EXPECT_EQ(test, h->ip, (unsigned long)store_behind);
	EXPECT_EQUAL(h->value, 3, h->bp->cpu, h->cpu);
	KUNIT_EXPECT_EQ(test, h->context & ~PREEMPT_MASK, NMI_OFFSET + HARDIRQ_OFFSET);
	KUNIT_EXPECT_TRUE(test, h->irqs_off);
	KUNIT_EXPECT_EQ(test, HITS(store(watched, 3)), 1); /* the same value */
	EXPECT_EQUAL(HITS(load(watched, 0)), 0, HITS(compare(watched, 0)), 0);
	EXPECT_EQUAL(HITS(increment(watched, 0)), 1, h->value, 4);
	KUNIT_EXPECT_EQ(test, h->ip, (unsigned long)increment_behind);
	EXPECT_EQUAL(HITS(exchange(watched, 9)), 1, watched[0], 9);
	KUNIT_EXPECT_EQ(test, HITS(copy(watched, watched + 4, 3)), 3); /* each round */
	KUNIT_EXPECT_EQ(test, hits[0].ip, hits[1].ip);
	KUNIT_EXPECT_EQ(test, HITS(copy(watched + 1, watched, 8)), 0);
	unregister_wide_hw_breakpoint(e);
	EXPECT_EQUAL(HITS(store(watched, 4)), 0, watched[0], 4);
}

static void test_reads_and_overlaps(struct kunit *test)
{
	char *at = (char *)(watched + 2);
	struct perf_event *__percpu *e = set_at(at + 4, 4, HW_BREAKPOINT_RW);
	int i;

	KUNIT_EXPECT_EQ(test, HITS(load(at, 0)), 1);
	KUNIT_EXPECT_EQ(test, hits[0].ip, (unsigned long)load_behind);
	KUNIT_EXPECT_EQ(test, HITS(increment(at, 0)), 1);
	for (i = 0; i < 12; i++) {
		KUNIT_EXPECT_EQ(test, HITS(store_byte(at + i, i)), i >= 4 && i < 8);
		KUNIT_EXPECT_EQ(test, HITS(compare(at + i, 0)), i >= 4 && i < 8);
	}
	for (i = -8; i <= 16; i++)
		KUNIT_EXPECT_EQ(test, HITS(store(at + i, i)), i > -4 && i < 8);
	unregister_wide_hw_breakpoint(e);
	for (i = 1; i <= 8; i *= 2) {
		e = set_at(at + 8, i, HW_BREAKPOINT_RW);
		EXPECT_EQUAL(HITS(compare(at + 7, 0)), 0, HITS(compare(at + 8, 0)), 1);
		EXPECT_EQUAL(HITS(compare(at + 7 + i, 0)), 1, HITS(compare(at + 8 + i, 0)), 0);
		unregister_wide_hw_breakpoint(e);
	}
}

/* QEMU reports the first alone; a processor reports all. */
static void test_two_at_once(struct kunit *test)
{
	struct perf_event *__percpu *one = set_at(watched, 1, HW_BREAKPOINT_W), *__percpu * all;

	all = set_at(watched, 8, HW_BREAKPOINT_RW);
	EXPECT_EQUAL(HITS(store(watched, 2)), 2, hits[0].bp->attr.bp_len, 1);
	KUNIT_EXPECT_EQ(test, hits[1].bp->attr.bp_len, 8);
	EXPECT_EQUAL(HITS(load(watched, 0)), 1, hits[0].bp->attr.bp_len, 8);
	unregister_wide_hw_breakpoint(one);
	KUNIT_EXPECT_EQ(test, HITS(store(watched, 2)), 1);
	unregister_wide_hw_breakpoint(all);
}

static void test_on_the_stack(struct kunit *test)
{
	u64 *top = stack + ARRAY_SIZE(stack), flags = 0;
	struct perf_event *__percpu *e = set_at(top - 1, 8, HW_BREAKPOINT_RW);

	KUNIT_EXPECT_EQ(test, HITS(flags = on_stack(top)), 4);
	KUNIT_EXPECT_EQ(test, flags & (X86_EFLAGS_IF | X86_EFLAGS_TF), X86_EFLAGS_IF);
	unregister_wide_hw_breakpoint(e);
}

static DECLARE_COMPLETION(done);
static int thread(void *unused)
{
	store(watched, 5);
	complete(&done);
	return 0;
}

static int hits_on(int cpu)
{
	struct task_struct *t = kthread_create(thread, NULL, "watch/%d", cpu);

	nr_hits = 0;
	kthread_bind(t, cpu);
	wake_up_process(t);
	wait_for_completion(&done);
	return nr_hits;
}

static void test_each_cpu_has_its_own(struct kunit *test)
{
	struct perf_event *__percpu *e = set_at(watched, 8, HW_BREAKPOINT_W), *bp;
	int cpu;

	for_each_online_cpu(cpu) {
		EXPECT_EQUAL(hits_on(cpu), 1, hits[0].cpu, cpu);
		bp = *per_cpu_ptr(e, cpu);
		KUNIT_EXPECT_PTR_EQ(test, hits[0].bp, bp);
		KUNIT_EXPECT_EQ(test, local64_read(&bp->count), 1);
		perf_event_disable(bp);
		KUNIT_EXPECT_EQ(test, hits_on(cpu), 0);
		perf_event_enable(bp);
		KUNIT_EXPECT_EQ(test, hits_on(cpu), 1);
		perf_event_disable(bp);
	}
	unregister_wide_hw_breakpoint(e);
}

/* Each third access alone; counting without a handler. */
static void test_period(struct kunit *test)
{
	struct perf_event_attr attr = attr_at(watched, 8, HW_BREAKPOINT_W);
	struct perf_event *bp;
	int i, cpu = smp_processor_id();

	attr.sample_period = 3;
	attr.disabled = 1;
	bp = perf_event_create_kernel_counter(&attr, cpu, NULL, note, CONTEXT);
	KUNIT_ASSERT_FALSE(test, IS_ERR(bp));
	nr_hits = 0;
	preempt_disable();
	store(watched, 1);
	preempt_enable();
	KUNIT_EXPECT_EQ(test, local64_read(&bp->count), 0);
	perf_event_enable(bp);
	while (smp_processor_id() != cpu)
		cond_resched();
	for (i = 0; i < 7; i++)
		store(watched, i);
	EXPECT_EQUAL(local64_read(&bp->count), 7, nr_hits, 2);
	perf_event_release_kernel(bp);
}

static unsigned long pre_ip, post_ip;
static int hits_in_pre, stores;
static int pre(struct kprobe *p, struct pt_regs *regs)
{
	pre_ip = regs->ip;
	if (stores) {
		nr_hits = 0;
		store(watched, 33);
		hits_in_pre = nr_hits;
	}
	return 0;
}

POST(post, post_ip = regs->ip)

/* The ip of a probed instruction is that of its copy, as on Linux. */
static void test_probed(struct kunit *test)
{
	struct perf_event *__percpu *e = set_at(watched, 8, HW_BREAKPOINT_W);
	struct kprobe kp = { .addr = (void *)store_at, .pre_handler = pre };
	unsigned long text = (unsigned long)store_at;

	KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0); /* boosted */
	EXPECT_EQUAL(HITS(store(watched, 17)), 1, pre_ip, text + 1, hits[0].value, 17);
	KUNIT_EXPECT_TRUE(test, hits[0].ip - text > PAGE_SIZE);
	remove_kprobe(&kp);
	kp.addr = (void *)store_at;
	kp.post_handler = post; /* stepped */
	KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
	KUNIT_EXPECT_EQ(test, HITS(store(watched, 18)), 1);
	KUNIT_EXPECT_EQ(test, post_ip, (unsigned long)store_behind);
	KUNIT_EXPECT_EQ(test, hits[0].value, 18);
	KUNIT_EXPECT_TRUE(test, hits[0].ip - text > PAGE_SIZE);
	unregister_kprobe(&kp);
	KUNIT_EXPECT_EQ(test, kp.nmissed, 0);
	KUNIT_EXPECT_EQ(test, HITS(store(watched, 19)), 1);
	KUNIT_EXPECT_EQ(test, hits[0].ip, (unsigned long)store_behind);
	unregister_wide_hw_breakpoint(e);
}

TARGET long plain(long x)
{
	return x + 1;
}

/* A handler touches the memory; a probe is hit within the breakpoint's function. */
static void test_in_a_handler(struct kunit *test)
{
	struct perf_event *__percpu *e = set_at(watched, 8, HW_BREAKPOINT_W);
	struct kprobe kp = { .symbol_name = "plain", .pre_handler = pre };

	stores = 1;
	KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
	EXPECT_EQUAL(plain(1), 2, hits_in_pre, 1);
	KUNIT_EXPECT_EQ(test, hits[0].ip, (unsigned long)store_behind);
	EXPECT_EQUAL(watched[0], 33, kp.nmissed, 0);
	unregister_kprobe(&kp);
	stores = 0;
	unregister_wide_hw_breakpoint(e);
}

static void touch_again(struct perf_event *bp, struct perf_sample_data *data, struct pt_regs *regs)
{
	nr_hits++;
	store(watched, 44);
	plain(1);
}

static void test_no_recursion(struct kunit *test)
{
	struct perf_event * __percpu * e;
	struct kprobe kp = { .symbol_name = "plain", .pre_handler = pre };
	struct perf_event_attr attr = attr_at(watched, 8, HW_BREAKPOINT_RW);

	e = register_wide_hw_breakpoint(&attr, touch_again, NULL);
	KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
	pre_ip = 0;
	KUNIT_EXPECT_EQ(test, HITS(store(watched, 1)), 1);
	KUNIT_EXPECT_TRUE(test, pre_ip != 0);
	KUNIT_EXPECT_EQ(test, watched[0], 44);
	KUNIT_EXPECT_EQ(test, HITS(load(watched, 0)), 1);
	unregister_kprobe(&kp);
	unregister_wide_hw_breakpoint(e);
}

SUITE(hw_breakpoint, NULL, KUNIT_CASE(test_refused), KUNIT_CASE(test_writes),
      KUNIT_CASE(test_reads_and_overlaps), KUNIT_CASE(test_two_at_once),
      KUNIT_CASE(test_on_the_stack), KUNIT_CASE(test_each_cpu_has_its_own), KUNIT_CASE(test_period),
      KUNIT_CASE(test_probed), KUNIT_CASE(test_in_a_handler), KUNIT_CASE(test_no_recursion));
