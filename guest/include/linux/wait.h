/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/sched.h>

#define WQ_FLAG_EXCLUSIVE 1
typedef struct wait_queue_head {
	spinlock_t lock;
	struct list_head head;
} wait_queue_head_t;
typedef struct wait_queue_entry wait_queue_entry_t;
typedef int (*wait_queue_func_t)(wait_queue_entry_t *e, unsigned int mode, int flags, void *key);
struct wait_queue_entry {
	unsigned int flags;
	void *private;
	wait_queue_func_t func;
	struct list_head entry;
};
#define __WAIT_QUEUE_HEAD_INITIALIZER(n) { __SPIN_LOCK_UNLOCKED(n), LIST_HEAD_INIT((n).head) }
#define DECLARE_WAIT_QUEUE_HEAD(n) wait_queue_head_t n = __WAIT_QUEUE_HEAD_INITIALIZER(n)
#define DEFINE_WAIT_FUNC(n, f) \
	wait_queue_entry_t n = { .private = current, .func = f, .entry = LIST_HEAD_INIT((n).entry) }
#define DEFINE_WAIT(n) DEFINE_WAIT_FUNC(n, autoremove_wake_function)

static inline void init_waitqueue_head(wait_queue_head_t *q)
{
	spin_lock_init(&q->lock);
	INIT_LIST_HEAD(&q->head);
}
static inline int waitqueue_active(wait_queue_head_t *q) { return !list_empty(&q->head); }

void add_wait_queue(wait_queue_head_t *q, wait_queue_entry_t *e);
void remove_wait_queue(wait_queue_head_t *q, wait_queue_entry_t *e);
void prepare_to_wait(wait_queue_head_t *q, wait_queue_entry_t *e, int state);
void prepare_to_wait_exclusive(wait_queue_head_t *q, wait_queue_entry_t *e, int state);
void finish_wait(wait_queue_head_t *q, wait_queue_entry_t *e);
int default_wake_function(wait_queue_entry_t *e, unsigned int mode, int flags, void *key);
int autoremove_wake_function(wait_queue_entry_t *e, unsigned int mode, int flags, void *key);
void __wake_up(wait_queue_head_t *q, unsigned int mode, int nr, void *key);
#define wake_up(q) __wake_up(q, TASK_NORMAL, 1, NULL)
#define wake_up_all(q) __wake_up(q, TASK_NORMAL, 0, NULL)
#define wake_up_interruptible(q) __wake_up(q, TASK_INTERRUPTIBLE, 1, NULL)

#define ___wait_event(q, cond, state, sched) ({ \
	long __ret = 0; \
	DEFINE_WAIT(__wait); \
	for (;;) { \
		prepare_to_wait(&(q), &__wait, state); \
		if (cond) \
			break; \
		if ((state) == TASK_INTERRUPTIBLE && signal_pending(current)) { \
			__ret = -ERESTARTSYS; \
			break; \
		} \
		sched; \
	} \
	finish_wait(&(q), &__wait); \
	__ret; })
#define wait_event(q, cond) do { if (!(cond)) (void)___wait_event(q, cond, TASK_UNINTERRUPTIBLE, schedule()); } while (0)
#define wait_event_interruptible(q, cond) \
	({ long __r = 0; if (!(cond)) __r = ___wait_event(q, cond, TASK_INTERRUPTIBLE, schedule()); __r; })
#define wait_event_timeout(q, cond, timeout) ({ long __t = (timeout); \
	if (!(cond)) (void)___wait_event(q, (cond) || !__t, TASK_UNINTERRUPTIBLE, __t = schedule_timeout(__t)); \
	(cond) && !__t ? 1 : __t; })
