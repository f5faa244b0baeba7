// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Read-copy-update. Readers are counted under one of two indices; a grace period flips
 * the index and waits, twice, until the readers of the other are gone. A kernel thread
 * does that and then calls the callbacks.
 */
#include <linux/completion.h>
#include <linux/kthread.h>
#include <linux/init.h>
#include <linux/rcupdate.h>
#include <linux/rescue.h>
#include <linux/sched.h>
#include <linux/slab.h>

static struct rcu_state {
	atomic_t readers[2];
	int idx;
	unsigned long gp_seq;
	spinlock_t lock;
	struct callback_head *head, **tail;
	wait_queue_head_t gp_wq;
} rcu_state;

void __rcu_read_lock(void)
{
	struct task_struct *t = current;

	if (t->rcu_read_lock_nesting++ == 0) {
		t->rcu_idx = READ_ONCE(rcu_state.idx);
		atomic_inc(&rcu_state.readers[t->rcu_idx]);
	}
}

noinline void __rcu_read_unlock(void)
{
	struct task_struct *t = current;

	if (--t->rcu_read_lock_nesting == 0)
		atomic_dec(&rcu_state.readers[t->rcu_idx]);
}

/* Leave the read-side sections of a task that ends by an oops. */
void exit_rcu(void)
{
	if (!current->rcu_read_lock_nesting)
		return;
	current->rcu_read_lock_nesting = 1;
	__rcu_read_unlock();
}

noinline void call_rcu(struct callback_head *head, void (*func)(struct callback_head *))
{
	unsigned long flags;

	head->func = func;
	head->next = NULL;
	spin_lock_irqsave(&rcu_state.lock, flags);
	*rcu_state.tail = head;
	rcu_state.tail = &head->next;
	spin_unlock_irqrestore(&rcu_state.lock, flags);
	wake_up(&rcu_state.gp_wq);
}

/* The place of the head in its block stands for a function: no function has such an address. */
noinline void kvfree_call_rcu(struct callback_head *head, void (*offset)(struct callback_head *))
{
	call_rcu(head, offset);
}

struct rcu_synchronize {
	struct callback_head head;
	struct completion completion;
};

static void wakeme_after_rcu(struct callback_head *head)
{
	complete(&container_of(head, struct rcu_synchronize, head)->completion);
}

void synchronize_rcu(void)
{
	struct rcu_synchronize rs;

	init_completion(&rs.completion);
	call_rcu(&rs.head, wakeme_after_rcu);
	wait_for_completion(&rs.completion);
}

static int rcu_gp_init(void)
{
	int old = rcu_state.idx;

	WRITE_ONCE(rcu_state.idx, !old);
	return old;
}

static void rcu_gp_fqs_loop(int old)
{
	while (atomic_read(&rcu_state.readers[old]))
		schedule_timeout_uninterruptible(1);
}

static void rcu_gp_cleanup(void)
{
	rcu_state.gp_seq++;
}

static void rcu_do_batch(struct callback_head *list)
{
	while (list) {
		struct callback_head *head = list;

		list = list->next;
		if ((unsigned long)head->func < PAGE_SIZE)
			kfree((char *)head - (unsigned long)head->func);
		else
			call_rescued(&current->rescue, head->func(head));
	}
}

static struct callback_head *rcu_take_callbacks(void)
{
	struct callback_head *list;

	guard(spinlock_irq)(&rcu_state.lock);
	list = rcu_state.head;
	rcu_state.head = NULL;
	rcu_state.tail = &rcu_state.head;
	return list;
}

static int rcu_gp_kthread(void *unused)
{
	struct callback_head *list;

	for (;;) {
		wait_event(rcu_state.gp_wq, READ_ONCE(rcu_state.head));
		schedule_timeout_uninterruptible(1);
		list = rcu_take_callbacks();
		for (int pass = 0; pass < 2; pass++)
			rcu_gp_fqs_loop(rcu_gp_init());
		rcu_gp_cleanup();
		rcu_do_batch(list);
	}
	return 0;
}

static int __init rcu_spawn_gp_kthread(void)
{
	return PTR_ERR_OR_ZERO(kthread_run(rcu_gp_kthread, NULL, "rcu_preempt"));
}
early_initcall(rcu_spawn_gp_kthread);

void __init rcu_init(void)
{
	rcu_state.tail = &rcu_state.head;
	init_waitqueue_head(&rcu_state.gp_wq);
}
