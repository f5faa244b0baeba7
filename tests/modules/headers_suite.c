// SPDX-License-Identifier: GPL-2.0-or-later
/* Further headers that modules find: kprobes' own structures, and others. */
#include <asm/kprobes.h>
#include <asm/processor.h>
#include <linux/bitops.h>
#include <linux/build_bug.h>
#include <linux/container_of.h>
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/cred.h>
#include <linux/dcache.h>
#include <linux/delay.h>
#include <linux/ftrace.h>
#include <linux/hash.h>
#include <linux/hashtable.h>
#include <linux/irqflags.h>
#include <linux/jiffies.h>
#include <linux/kdebug.h>
#include <linux/kref.h>
#include <linux/kthread.h>
#include <linux/limits.h>
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/path.h>
#include <linux/ptrace.h>
#include <linux/rculist.h>
#include <linux/sched/clock.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/semaphore.h>
#include <linux/smp.h>
#include <linux/static_key.h>
#include <linux/stddef.h>
#include <linux/time.h>
#include <linux/timekeeping.h>
#include <linux/uaccess.h>
#include <linux/uidgid.h>
#include <linux/workqueue.h>
#include <linux/uio.h>
#include "targets.h"

TARGET long target(long x)
{
	__asm__ __volatile__("nopl 64(%%rax)" : "+D"(x));
	return x + 1;
}
TARGET long inner(long x)
{
	__asm__ __volatile__("nopl 64(%%rax)" : "+D"(x));
	return x + 2;
}

static struct kprobe kp, nested;
static struct kprobe *running, *current_one;
static unsigned long pre_status, post_status;

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	running = kprobe_running();
	current_one = __this_cpu_read(current_kprobe);
	pre_status = get_kprobe_ctlblk()->kprobe_status;
	return 0;
}

POST(post, post_status = get_kprobe_ctlblk()->kprobe_status)

static int suite_init(struct kunit *test)
{
	memset(&kp, 0, sizeof(kp));
	memset(&nested, 0, sizeof(nested));
	kp.symbol_name = "target";
	kp.offset = 5;
	kp.pre_handler = pre;
	nested.symbol_name = "inner";
	nested.offset = 5;
	running = current_one = NULL;
	pre_status = post_status = 0;
	return 0;
}

/* The copy begins as the instruction did, and may be followed by a jump back. */
static void test_ainsn(struct kunit *test)
{
	u32 insn = *(u32 *)((char *)target + 5); /* nopl 64(%rax), of four bytes */

	KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
	KUNIT_ASSERT_TRUE(test, kp.ainsn.insn != NULL);
	EXPECT_EQUAL(*(u32 *)kp.ainsn.insn, insn, kp.ainsn.boostable, 1, kp.ainsn.size, 4);
	remove_kprobe(&kp);
	kp.post_handler = post;
	KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
	EXPECT_EQUAL(*(u32 *)kp.ainsn.insn, insn, kp.ainsn.boostable, 0);
	unregister_kprobe(&kp);
}

/* At a function's entry there is no copy. */
static void test_ainsn_at_entry(struct kunit *test)
{
	kp.offset = 0;
	KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
	KUNIT_EXPECT_TRUE(test, kp.flags & KPROBE_FLAG_FTRACE);
	KUNIT_EXPECT_PTR_EQ(test, kp.ainsn.insn, NULL);
	KUNIT_EXPECT_EQ(test, kp.ainsn.boostable, 0);
	unregister_kprobe(&kp);
}

static void test_running(struct kunit *test)
{
	kp.post_handler = post;
	KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
	KUNIT_EXPECT_EQ(test, target(1), 2);
	KUNIT_EXPECT_PTR_EQ(test, running, &kp);
	KUNIT_EXPECT_PTR_EQ(test, current_one, &kp);
	KUNIT_EXPECT_EQ(test, pre_status, KPROBE_HIT_ACTIVE);
	KUNIT_EXPECT_EQ(test, post_status, KPROBE_HIT_SSDONE);
	unregister_kprobe(&kp);
	preempt_disable();
	KUNIT_EXPECT_PTR_EQ(test, kprobe_running(), NULL);
	KUNIT_EXPECT_PTR_EQ(test, __this_cpu_read(current_kprobe), NULL);
	KUNIT_EXPECT_EQ(test, get_kprobe_ctlblk()->kprobe_status, 0);
	preempt_enable();
}

static int pre_calls_inner(struct kprobe *p, struct pt_regs *regs)
{
	inner(1);
	running = kprobe_running();
	pre_status = get_kprobe_ctlblk()->kprobe_status;
	return 0;
}

/* A hit in a handler is missed, and leaves the handler's own state as it was. */
static void test_reentered(struct kunit *test)
{
	kp.pre_handler = pre_calls_inner;
	nested.pre_handler = pre;
	KUNIT_ASSERT_EQ(test, register_kprobe(&kp) ?: register_kprobe(&nested), 0);
	EXPECT_EQUAL(target(1), 2, nested.nmissed, 1);
	KUNIT_EXPECT_PTR_EQ(test, running, &kp);
	KUNIT_EXPECT_EQ(test, pre_status, KPROBE_HIT_ACTIVE);
	unregister_kprobe(&nested);
	unregister_kprobe(&kp);
}

/* What get_kprobe() gives stands for several structures: look for them on its list. */
static int listed(struct kprobe *ap, struct kprobe *first, struct kprobe *second)
{
	struct kprobe *p, *want[] = { first, second };
	int n = 0;

	list_for_each_entry(p, &ap->list, list)
		if (n >= 2 || p != want[n++])
			return -1;
	return n;
}

/* A point that may become a jump has an aggregate at once, as in Linux. */
static void test_get_kprobe(struct kunit *test)
{
	char *at = (char *)target + 5;
	struct kprobe *ap;

	KUNIT_EXPECT_PTR_EQ(test, get_kprobe(at), NULL);
	KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
	ap = get_kprobe(at);
	KUNIT_ASSERT_NOT_NULL(test, ap);
	KUNIT_EXPECT_PTR_NE(test, ap, &kp);
	KUNIT_EXPECT_PTR_EQ(test, ap->addr, (void *)at);
	KUNIT_EXPECT_EQ(test, listed(ap, &kp, NULL), 1);
	KUNIT_EXPECT_PTR_EQ(test, get_kprobe(at + 1), NULL);
	unregister_kprobe(&kp);
	KUNIT_EXPECT_PTR_EQ(test, get_kprobe(at), NULL);
}

static void test_aggregate(struct kunit *test)
{
	struct kprobe *ap;
	int offset;

	for (offset = 0; offset <= 5; offset += 5) {
		kp.symbol_name = nested.symbol_name = "target";
		kp.offset = nested.offset = offset;
		kp.addr = nested.addr = NULL;
		kp.flags = nested.flags = 0;
		kp.pre_handler = nested.pre_handler = pre;
		nested.post_handler = post;
		KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
		if (!offset) {
			KUNIT_EXPECT_PTR_EQ(test, get_kprobe(target), &kp);
			KUNIT_EXPECT_TRUE(test, list_empty(&kp.list));
		}
		KUNIT_ASSERT_EQ(test, register_kprobe(&nested), 0);
		ap = get_kprobe((char *)target + offset);
		KUNIT_ASSERT_NOT_NULL(test, ap);
		KUNIT_EXPECT_EQ(test, listed(ap, &nested, &kp), 2);
		KUNIT_EXPECT_FALSE(test, list_empty(&kp.list) || list_empty(&nested.list));
		KUNIT_EXPECT_PTR_EQ(test, ap->addr, kp.addr);
		KUNIT_EXPECT_EQ(test, ap->opcode, kp.opcode);
		KUNIT_EXPECT_TRUE(test, ap->pre_handler && ap->pre_handler != pre);
		KUNIT_EXPECT_TRUE(test, ap->post_handler && ap->post_handler != post);
		KUNIT_EXPECT_FALSE(test, kprobe_disabled(ap));
		disable_kprobe(&kp);
		disable_kprobe(&nested);
		KUNIT_EXPECT_PTR_EQ(test, get_kprobe((char *)target + offset), ap);
		KUNIT_EXPECT_TRUE(test, kprobe_disabled(ap));
		unregister_kprobe(&nested);
		KUNIT_EXPECT_EQ(test, listed(get_kprobe((char *)target + offset), &kp, NULL), 1);
		unregister_kprobe(&kp);
		KUNIT_EXPECT_NULL(test, get_kprobe((char *)target + offset));
	}
}

static char copied[8];
static unsigned long left, left_of_nothing;

static int pre_copies(struct kprobe *p, struct pt_regs *regs)
{
	pagefault_disable();
	left = __copy_from_user_inatomic(copied, (void __user *)regs->di, sizeof(copied));
	left_of_nothing = __copy_from_user_inatomic(copied + 4, (void __user *)0x1000, 4);
	pagefault_enable();
	return 0;
}

/* Somewhere in the memory of a process; a test is run by a kernel thread, which has none. */
static char __user *user_memory(void)
{
	struct task_struct *p;

	for_each_process(p)
		if (p->user_base)
			return (char __user *)p->user_base + KPFS_USER_BUFFER - 16;
	return NULL;
}

/* Copies of user memory in a handler: a fault costs the bytes, not the kernel. */
static void test_inatomic(struct kunit *test)
{
	char __user *buffer = user_memory();

	KUNIT_ASSERT_EQ(test, copy_to_user(buffer, "in user", 8), 0);
	kp.offset = 0;
	kp.pre_handler = pre_copies;
	left = left_of_nothing = 99;
	KUNIT_ASSERT_EQ(test, register_kprobe(&kp), 0);
	target((long)buffer);
	unregister_kprobe(&kp);
	EXPECT_EQUAL(left, 0, left_of_nothing, 4);
	KUNIT_EXPECT_EQ(test, memcmp(copied, "in user", 8), 0);
}

static int nr_int3, trapnr;

static int on_die(struct notifier_block *nb, unsigned long val, void *data)
{
	struct die_args *args = data;

	if (val != DIE_INT3 || args->regs->di != 0x1d1e)
		return NOTIFY_DONE;
	nr_int3++;
	trapnr = args->trapnr;
	return NOTIFY_STOP;
}

static void test_die_notifier(struct kunit *test)
{
	struct notifier_block nb = { .notifier_call = on_die };

	KUNIT_ASSERT_EQ(test, register_die_notifier(&nb), 0);
	__asm__ __volatile__("int3" : : "D"(0x1d1eUL));
	KUNIT_EXPECT_EQ(test, unregister_die_notifier(&nb), 0);
	EXPECT_EQUAL(nr_int3, 1, trapnr, 3);
}

static DEFINE_SEMAPHORE(sem);
static int order[4], nr_order;

static int taker(void *unused)
{
	down(&sem);
	order[nr_order++] = 2;
	up(&sem);
	return 0;
}

static void test_semaphore(struct kunit *test)
{
	struct semaphore two;
	struct task_struct *t;

	KUNIT_EXPECT_EQ(test, down_trylock(&sem), 0);
	KUNIT_EXPECT_EQ(test, down_trylock(&sem), 1);
	KUNIT_EXPECT_EQ(test, down_timeout(&sem, 2), -ETIME);
	t = kthread_run(taker, NULL, "taker");
	msleep(8);
	order[nr_order++] = 1;
	up(&sem);
	msleep(8);
	EXPECT_EQUAL(nr_order, 2, order[0], 1, order[1], 2);
	KUNIT_EXPECT_EQ(test, down_interruptible(&sem), 0);
	up(&sem);
	(void)t;

	sema_init(&two, 2);
	down(&two);
	KUNIT_EXPECT_EQ(test, down_killable(&two), 0);
	KUNIT_EXPECT_EQ(test, down_trylock(&two), 1);
}

static void test_cpumask(struct kunit *test)
{
	unsigned int cpu, n = 0;
	struct cpumask odd;

	for_each_cpu(cpu, cpu_online_mask) n++;
	KUNIT_EXPECT_EQ(test, n, num_online_cpus());
	KUNIT_EXPECT_EQ(test, cpumask_weight(cpu_possible_mask), nr_cpu_ids);
	KUNIT_EXPECT_TRUE(test, cpumask_test_cpu(smp_processor_id(), cpu_online_mask));
	KUNIT_EXPECT_EQ(test, cpumask_next(nr_cpu_ids - 1, cpu_online_mask), nr_cpu_ids);
	cpumask_clear(&odd);
	KUNIT_EXPECT_TRUE(test, cpumask_empty(&odd));
	cpumask_set_cpu(1, &odd);
	KUNIT_EXPECT_EQ(test, cpumask_first(&odd), nr_cpu_ids > 1 ? 1 : nr_cpu_ids);
	cpumask_andnot(&odd, cpu_online_mask, &odd);
	KUNIT_EXPECT_EQ(test, cpumask_first(&odd), 0);
	KUNIT_EXPECT_FALSE(test, cpumask_test_cpu(1, &odd));
}

struct item {
	int value;
	struct list_head list;
	struct hlist_node node;
	struct rcu_head rcu;
};

static int sum_of(struct list_head *head)
{
	struct item *it;
	int sum = 0;

	rcu_read_lock();
	list_for_each_entry_rcu(it, head, list) sum = 10 * sum + it->value;
	rcu_read_unlock();
	return sum;
}

static void test_rcu_lists(struct kunit *test)
{
	static LIST_HEAD(head);
	static struct hlist_head bucket;
	struct item *items[3], other = { .value = 7 }, *it;
	int found = 0;

	KUNIT_EXPECT_PTR_EQ(test, list_first_or_null_rcu(&head, struct item, list), NULL);
	for (int i = 0; i < 3; i++) {
		items[i] = kzalloc(sizeof(other), GFP_KERNEL);
		items[i]->value = i + 1;
		hlist_add_head_rcu(&items[i]->node, &bucket);
	}
	list_add_rcu(&items[0]->list, &head);
	list_add_rcu(&items[1]->list, &head);
	list_add_tail_rcu(&items[2]->list, &head);
	KUNIT_EXPECT_EQ(test, sum_of(&head), 213);
	list_replace_rcu(&items[0]->list, &other.list);
	KUNIT_EXPECT_EQ(test, sum_of(&head), 273);
	list_del_rcu(&items[1]->list);
	KUNIT_EXPECT_EQ(test, sum_of(&head), 73);
	KUNIT_EXPECT_PTR_EQ(test, list_first_or_null_rcu(&head, struct item, list), &other);
	hlist_del_rcu(&items[1]->node);
	hlist_for_each_entry_rcu(it, &bucket, node) found = 10 * found + it->value;
	KUNIT_EXPECT_EQ(test, found, 31);
	for (int i = 0; i < 3; i++)
		kfree_rcu(items[i], rcu);
	synchronize_rcu();
}

static void test_small_headers(struct kunit *test)
{
	struct task_struct *p, *t;
	unsigned long flags, now = jiffies;
	int processes = 0, tasks = 0, same = 0;

	KUNIT_EXPECT_TRUE(test, time_before(now, now + 1) && !time_before(now, now));
	KUNIT_EXPECT_EQ(test, hash_32(1, 8), 0x61);
	KUNIT_EXPECT_EQ(test, hash_64(3, 16), 0x2559);
	KUNIT_EXPECT_EQ(test, hash_ptr((void *)3, 16), hash_long(3, 16));
	KUNIT_EXPECT_EQ(test, offsetofend(struct item, value), sizeof(int));
	raw_local_irq_save(flags);
	KUNIT_EXPECT_TRUE(test, raw_irqs_disabled() && !irqs_disabled_flags(flags));
	raw_local_irq_restore(flags);
	rcu_read_lock();
	for_each_process(p) {
		processes++;
		KUNIT_EXPECT_TRUE(test, thread_group_leader(p));
	}
	for_each_process_thread(p, t) tasks++;
	for_each_thread(current, t) same += same_thread_group(current, t);
	rcu_read_unlock();
	KUNIT_EXPECT_TRUE(test, processes > 2 && tasks >= processes && same >= 1);
	KUNIT_EXPECT_FALSE(test, fatal_signal_pending(current));
	KUNIT_EXPECT_GT(test, CALLER_ADDR0, KPFS_TEXT_BASE);
}

struct keyed {
	int key;
	struct hlist_node node;
	struct kref ref;
};
static DEFINE_HASHTABLE(table, 4);
static int released;

static void release(struct kref *ref)
{
	released = container_of(ref, struct keyed, ref)->key;
}

static void test_hashtable(struct kunit *test)
{
	static struct keyed a = { 5 }, b = { 21 };
	struct keyed *it;
	struct hlist_node *tmp;
	unsigned int bkt;
	int sum = 0;

	KUNIT_EXPECT_TRUE(test, hash_empty(table));
	hash_add(table, &a.node, a.key);
	hash_add(table, &b.node, b.key);
	hash_for_each(table, bkt, it, node) sum += it->key;
	KUNIT_EXPECT_EQ(test, sum, 26);
	hash_for_each_possible(table, it, node, 21) sum += it->key == 21 ? 100 : 0;
	KUNIT_EXPECT_EQ(test, sum, 126);
	hash_for_each_safe(table, bkt, tmp, it, node) hash_del(&it->node);
	KUNIT_EXPECT_TRUE(test, hash_empty(table) && !hash_hashed(&a.node));
	kref_init(&a.ref);
	kref_get(&a.ref);
	KUNIT_EXPECT_TRUE(test, !kref_put(&a.ref, release) && !released);
	KUNIT_EXPECT_TRUE(test, kref_put(&a.ref, release) && released == 5);
}

/* What Linux 6.1 makes of the same. */
static void test_numbers(struct kunit *test)
{
	u64 big = 1000000007;
	unsigned long bit;
	int sum = 0;
	DECLARE_BITMAP(bits, 70) = { 0x5, 0x20 };

	for_each_set_bit(bit, bits, 70) sum += bit;
	KUNIT_EXPECT_EQ(test, sum, 0 + 2 + 69);
	KUNIT_EXPECT_EQ(test, div_u64(big, 3), 333333335);
	KUNIT_EXPECT_EQ(test, do_div(big, 10), 7);
	KUNIT_EXPECT_EQ(test, big, 100000000);
	KUNIT_EXPECT_EQ(test, ilog2(4096), 12);
	KUNIT_EXPECT_EQ(test, roundup_pow_of_two(33), 64);
	KUNIT_EXPECT_EQ(test, rounddown_pow_of_two(33), 32);
	KUNIT_EXPECT_TRUE(test, is_power_of_2(64) && !is_power_of_2(0));
	KUNIT_EXPECT_EQ(test, GENMASK(7, 4), 0xf0);
	KUNIT_EXPECT_EQ(test, hweight64(0xff01), 9);
	KUNIT_EXPECT_EQ(test, fls(8) + ffs(8) + __ffs(8), 11);
}

static __printf(2, 3) int formatted(char *buffer, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsprintf(buffer, format, args);
	va_end(args);
	return n;
}

static void test_numbers_of_text(struct kunit *test)
{
	char buffer[16], *end;

	EXPECT_EQUAL(simple_strtol("-0x1fz", &end, 0), -31, *end, 'z');
	EXPECT_EQUAL(simple_strtoll("-9", NULL, 10), -9, simple_strtoll("077", NULL, 0), 63);
	EXPECT_EQUAL(simple_strtoull("18446744073709551615", &end, 10) == U64_MAX, 1, *end, 0);
	EXPECT_EQUAL(simple_strtol("x", &end, 10), 0, *end, 'x');
	EXPECT_EQUAL(formatted(buffer, "%d-%s", 12, "ab"), 5, strcmp(buffer, "12-ab"), 0);
}

static void test_usleep(struct kunit *test)
{
	ktime_t end = ktime_get() + 300 * NSEC_PER_USEC;

	usleep_range(300, 400);
	KUNIT_EXPECT_TRUE(test, ktime_get() >= end);
}

static void work_fn(struct work_struct *work)
{
	released++;
}
static DECLARE_WORK(work, work_fn);
static DECLARE_DELAYED_WORK(later, work_fn);

static void test_work(struct kunit *test)
{
	released = 0;
	KUNIT_EXPECT_TRUE(test, schedule_work(&work));
	flush_work(&work);
	KUNIT_EXPECT_EQ(test, released, 1);
	KUNIT_EXPECT_FALSE(test, cancel_work_sync(&work));
	preempt_disable(); /* the worker cannot begin */
	KUNIT_EXPECT_TRUE(test, schedule_work(&work) && !schedule_work(&work));
	KUNIT_EXPECT_TRUE(test, work_pending(&work));
	preempt_enable();
	cancel_work_sync(&work);
	KUNIT_EXPECT_FALSE(test, work_pending(&work));
	KUNIT_EXPECT_TRUE(test, schedule_delayed_work(&later, 1000));
	KUNIT_EXPECT_TRUE(test, delayed_work_pending(&later));
	KUNIT_EXPECT_TRUE(test, cancel_delayed_work_sync(&later));
	KUNIT_EXPECT_FALSE(test, delayed_work_pending(&later));
	KUNIT_EXPECT_LE(test, released, 2);
}

SUITE(headers_suite, suite_init, KUNIT_CASE(test_ainsn), KUNIT_CASE(test_ainsn_at_entry),
      KUNIT_CASE(test_running), KUNIT_CASE(test_reentered), KUNIT_CASE(test_get_kprobe),
      KUNIT_CASE(test_aggregate), KUNIT_CASE(test_inatomic), KUNIT_CASE(test_die_notifier),
      KUNIT_CASE(test_semaphore), KUNIT_CASE(test_cpumask), KUNIT_CASE(test_rcu_lists),
      KUNIT_CASE(test_small_headers), KUNIT_CASE(test_hashtable), KUNIT_CASE(test_numbers),
      KUNIT_CASE(test_numbers_of_text), KUNIT_CASE(test_usleep), KUNIT_CASE(test_work));
