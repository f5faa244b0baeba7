// SPDX-License-Identifier: GPL-2.0-or-later
/* A module's own per-CPU variables, counted up by a handler on each CPU. */
#include <linux/completion.h>
#include <linux/kthread.h>
#include <linux/percpu.h>
#include "targets.h"

struct counts { u64 hits, args; };
static DEFINE_PER_CPU(struct counts, counts);
static DEFINE_PER_CPU(u8, byte) = 250;
static DEFINE_PER_CPU(u16, word) = 65530;
static DEFINE_PER_CPU(int, number) = -7;
static DEFINE_PER_CPU(void *, pointer);
DEFINE_PER_CPU_ALIGNED(u64, aligned) = 64;
EXPORT_PER_CPU_SYMBOL_GPL(aligned);

TARGET long target(long x)
{
	return x + 1;
}

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	this_cpu_inc(counts.hits);
	this_cpu_ptr(&counts)->args += regs->di;
	return 0;
}

static struct kprobe kp = { .symbol_name = "target", .pre_handler = pre };

static DECLARE_COMPLETION(done);
static int thread(void *n)
{
	int cpu;

	for (cpu = 0; cpu < (long)n; cpu++)
		target(100);
	this_cpu_add(number, (long)n);
	complete(&done);
	return 0;
}

static void run_on(struct kunit *test, int cpu, long n)
{
	struct task_struct *t = kthread_create(thread, (void *)n, "percpu/%d", cpu);

	KUNIT_ASSERT_FALSE(test, IS_ERR(t));
	kthread_bind(t, cpu);
	wake_up_process(t);
	wait_for_completion(&done);
}

static void test_each_cpu_has_its_own(struct kunit *test)
{
	int cpu, other;

	KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
	for_each_online_cpu(cpu)
		run_on(test, cpu, cpu + 1);
	unregister_kprobe(&kp);
	for_each_online_cpu(cpu) {
		KUNIT_EXPECT_EQ(test, per_cpu(counts, cpu).hits, cpu + 1);
		KUNIT_EXPECT_EQ(test, per_cpu(counts, cpu).args, 100 * (cpu + 1));
		KUNIT_EXPECT_EQ(test, per_cpu(number, cpu), cpu + 1 - 7);
		KUNIT_EXPECT_EQ(test, *per_cpu_ptr(&aligned, cpu), 64);
		KUNIT_EXPECT_EQ(test, (unsigned long)per_cpu_ptr(&aligned, cpu) & 63, 0);
		for_each_online_cpu(other)
			KUNIT_EXPECT_EQ(test,
					per_cpu_ptr(&counts, cpu) == per_cpu_ptr(&counts, other),
					cpu == other);
	}
}

static void test_operations(struct kunit *test)
{
	preempt_disable();
	this_cpu_add(byte, 10);
	this_cpu_sub(word, 30);
	this_cpu_write(pointer, &kp);
	__this_cpu_write(number, 5);
	__this_cpu_dec(number);
	KUNIT_EXPECT_EQ(test, this_cpu_read(byte), 4);
	KUNIT_EXPECT_EQ(test, this_cpu_read(word), 65500);
	KUNIT_EXPECT_EQ(test, this_cpu_read(number), 4);
	KUNIT_EXPECT_PTR_EQ(test, this_cpu_read(pointer), (void *)&kp);
	KUNIT_EXPECT_PTR_EQ(test, per_cpu(pointer, smp_processor_id()), (void *)&kp);
	preempt_enable();
	get_cpu_var(number)++;
	KUNIT_EXPECT_EQ(test, __this_cpu_read(number), 5);
	KUNIT_EXPECT_FALSE(test, preemptible());
	put_cpu_var(number);
}

SUITE(percpu, NULL, KUNIT_CASE(test_each_cpu_has_its_own), KUNIT_CASE(test_operations));
