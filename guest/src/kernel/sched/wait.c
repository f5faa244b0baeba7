// SPDX-License-Identifier: GPL-2.0-or-later
/* Wait queues. */
#include <linux/wait.h>

void add_wait_queue(wait_queue_head_t *q, wait_queue_entry_t *e)
{
	guard(spinlock_irqsave)(&q->lock);
	list_add(&e->entry, &q->head);
}

void remove_wait_queue(wait_queue_head_t *q, wait_queue_entry_t *e)
{
	guard(spinlock_irqsave)(&q->lock);
	list_del(&e->entry);
}

void prepare_to_wait(wait_queue_head_t *q, wait_queue_entry_t *e, int state)
{
	e->flags &= ~WQ_FLAG_EXCLUSIVE;
	guard(spinlock_irqsave)(&q->lock);
	if (list_empty(&e->entry))
		list_add(&e->entry, &q->head);
	set_current_state(state);
}

void prepare_to_wait_exclusive(wait_queue_head_t *q, wait_queue_entry_t *e, int state)
{
	e->flags |= WQ_FLAG_EXCLUSIVE;
	guard(spinlock_irqsave)(&q->lock);
	if (list_empty(&e->entry))
		list_add_tail(&e->entry, &q->head);
	set_current_state(state);
}

void finish_wait(wait_queue_head_t *q, wait_queue_entry_t *e)
{
	__set_current_state(TASK_RUNNING);
	if (list_empty(&e->entry))
		return;
	guard(spinlock_irqsave)(&q->lock);
	list_del_init(&e->entry);
}

int try_to_wake_up(struct task_struct *p, unsigned int state, int wake_flags);

noinline int default_wake_function(wait_queue_entry_t *e, unsigned int mode, int flags, void *key)
{
	return try_to_wake_up(e->private, mode, flags);
}

int autoremove_wake_function(wait_queue_entry_t *e, unsigned int mode, int flags, void *key)
{
	int ret = default_wake_function(e, mode, flags, key);

	if (ret)
		list_del_init(&e->entry);
	return ret;
}

/* Wake nr exclusive waiters (0: all) and every other one. */
static int __wake_up_common(wait_queue_head_t *q, unsigned int mode, int nr, void *key)
{
	wait_queue_entry_t *e, *next;

	list_for_each_entry_safe(e, next, &q->head, entry) {
		unsigned int flags = e->flags;

		if (e->func(e, mode, 0, key) && (flags & WQ_FLAG_EXCLUSIVE) && !--nr)
			break;
	}
	return nr;
}

void __wake_up(wait_queue_head_t *q, unsigned int mode, int nr, void *key)
{
	guard(spinlock_irqsave)(&q->lock);
	__wake_up_common(q, mode, nr, key);
}
