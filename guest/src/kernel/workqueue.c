// SPDX-License-Identifier: GPL-2.0-or-later
/* Work queues: on each CPU a pool with one worker. */
#include <linux/completion.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/rescue.h>
#include <linux/sched.h>
#include <linux/workqueue.h>

struct worker_pool {
	raw_spinlock_t lock;
	struct list_head worklist;
	struct task_struct *worker;
	struct work_struct *current_work;
	unsigned long nr_executed;
};
struct workqueue_struct {
	char name[24];
	unsigned int flags;
	int max_active;
};
static DEFINE_PER_CPU(struct worker_pool, cpu_worker_pools);
static struct workqueue_struct system_wq_struct = { .name = "events" };
struct workqueue_struct *system_wq = &system_wq_struct;

static noinline void wake_up_worker(struct worker_pool *pool)
{
	if (pool->worker)
		wake_up_process(pool->worker);
}

static void insert_work(struct worker_pool *pool, struct work_struct *work)
{
	list_add_tail(&work->entry, &pool->worklist);
	wake_up_worker(pool);
}

static noinline void __queue_work(int cpu, struct workqueue_struct *wq, struct work_struct *work)
{
	struct worker_pool *pool = &per_cpu(cpu_worker_pools, cpu);

	guard(raw_spinlock)(&pool->lock);
	work->cpu = cpu;
	insert_work(pool, work);
}

noinline bool queue_work_on(int cpu, struct workqueue_struct *wq, struct work_struct *work)
{
	guard(irqs)();
	if (test_and_set_bit(0, &work->pending))
		return false;
	__queue_work(cpu, wq, work);
	return true;
}

bool schedule_work(struct work_struct *work)
{
	return queue_work(system_wq, work);
}

void delayed_work_timer_fn(struct timer_list *t)
{
	struct delayed_work *dwork = from_timer(dwork, t, timer);

	__queue_work(dwork->cpu, dwork->wq, &dwork->work);
}

static void __queue_delayed_work(int cpu, struct workqueue_struct *wq, struct delayed_work *dwork,
				 unsigned long delay)
{
	dwork->wq = wq;
	dwork->cpu = cpu;
	if (!delay) {
		__queue_work(cpu, wq, &dwork->work);
		return;
	}
	mod_timer(&dwork->timer, jiffies + delay);
}

noinline bool queue_delayed_work_on(int cpu, struct workqueue_struct *wq,
				    struct delayed_work *dwork, unsigned long delay)
{
	if (test_and_set_bit(0, &dwork->work.pending))
		return false;
	__queue_delayed_work(cpu, wq, dwork, delay);
	return true;
}

bool schedule_delayed_work(struct delayed_work *dwork, unsigned long delay)
{
	return queue_delayed_work_on(smp_processor_id(), system_wq, dwork, delay);
}

noinline bool cancel_delayed_work(struct delayed_work *dwork)
{
	if (!del_timer(&dwork->timer))
		return false;
	clear_bit(0, &dwork->work.pending);
	return true;
}

static void process_one_work(struct worker_pool *pool, struct work_struct *work)
{
	work_func_t fn = work->func;
	volatile bool done = false;

	list_del_init(&work->entry);
	pool->current_work = work;
	clear_bit(0, &work->pending);
	raw_spin_unlock_irq(&pool->lock);
	call_rescued(&current->rescue, fn(work); done = true);
	raw_spin_lock_irq(&pool->lock);
	if (!done && work->pending) { /* it would come again at once */
		list_del_init(&work->entry);
		clear_bit(0, &work->pending);
	}
	pool->current_work = NULL;
	pool->nr_executed++;
}

static int worker_thread(void *arg)
{
	struct worker_pool *pool = arg;

	for (;;) {
		raw_spin_lock_irq(&pool->lock);
		while (!list_empty(&pool->worklist))
			process_one_work(pool, list_first_entry(&pool->worklist, struct work_struct,
								entry));
		__set_current_state(TASK_INTERRUPTIBLE);
		raw_spin_unlock_irq(&pool->lock);
		schedule();
	}
	return 0;
}

struct wq_barrier {
	struct work_struct work;
	struct completion done;
};

static void wq_barrier_func(struct work_struct *work)
{
	complete(&container_of(work, struct wq_barrier, work)->done);
}

static noinline void insert_wq_barrier(int cpu, struct wq_barrier *barr)
{
	INIT_WORK(&barr->work, wq_barrier_func);
	init_completion(&barr->done);
	queue_work_on(cpu, system_wq, &barr->work);
}

noinline void __flush_workqueue(struct workqueue_struct *wq)
{
	struct wq_barrier barr;
	int cpu;

	for_each_online_cpu(cpu) {
		insert_wq_barrier(cpu, &barr);
		wait_for_completion(&barr.done);
	}
}

noinline bool flush_work(struct work_struct *work)
{
	bool busy = work->pending;

	flush_workqueue(system_wq);
	return busy;
}

/* Take work off its list if it waits there; return true if it did. */
static noinline bool try_to_grab_pending(struct work_struct *work)
{
	struct worker_pool *pool = &per_cpu(cpu_worker_pools, work->cpu);

	guard(irqs)();
	guard(raw_spinlock)(&pool->lock);
	if (list_empty(&work->entry))
		return false;
	list_del_init(&work->entry);
	clear_bit(0, &work->pending);
	return true;
}

noinline bool cancel_work_sync(struct work_struct *work)
{
	bool grabbed = try_to_grab_pending(work);

	flush_work(work);
	return grabbed;
}

bool cancel_delayed_work_sync(struct delayed_work *dwork)
{
	return cancel_delayed_work(dwork) || cancel_work_sync(&dwork->work);
}

void destroy_workqueue(struct workqueue_struct *wq)
{
	flush_workqueue(wq);
	kfree(wq);
}

struct workqueue_struct *alloc_workqueue(const char *name, unsigned int flags, int max_active)
{
	struct workqueue_struct *wq = kzalloc(sizeof(*wq), GFP_KERNEL);

	if (!wq)
		return NULL;
	snprintf(wq->name, sizeof(wq->name), "%s", name);
	wq->flags = flags;
	wq->max_active = max_active;
	return wq;
}

static struct task_struct *create_worker(int cpu, struct worker_pool *pool)
{
	return kthread_create_on_cpu(worker_thread, pool, cpu, "kworker/%d:0");
}

static int __init workqueue_init(void)
{
	int cpu;

	for_each_online_cpu(cpu) {
		struct worker_pool *pool = &per_cpu(cpu_worker_pools, cpu);

		pool->worker = create_worker(cpu, pool);
		wake_up_process(pool->worker);
	}
	return 0;
}
core_initcall(workqueue_init);

void __init workqueue_init_early(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		INIT_LIST_HEAD(&per_cpu(cpu_worker_pools, cpu).worklist);
}
