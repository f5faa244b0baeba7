/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/timer.h>
struct work_struct;
typedef void (*work_func_t)(struct work_struct *work);
struct work_struct {
	unsigned long pending;
	struct list_head entry;
	work_func_t func;
	int cpu; /* on which it was queued last */
};
struct workqueue_struct;
struct delayed_work {
	struct work_struct work;
	struct timer_list timer;
	struct workqueue_struct *wq;
	int cpu;
};
extern struct workqueue_struct *system_wq;
#define __WORK_INITIALIZER(n, f) { .entry = LIST_HEAD_INIT((n).entry), .func = (f) }
#define DECLARE_WORK(n, f) struct work_struct n = __WORK_INITIALIZER(n, f)
#define INIT_WORK(w, f) do { (w)->pending = 0; INIT_LIST_HEAD(&(w)->entry); (w)->func = (f); } while (0)
void delayed_work_timer_fn(struct timer_list *t);
#define DECLARE_DELAYED_WORK(n, f) \
	struct delayed_work n = { \
		.work = __WORK_INITIALIZER((n).work, f), \
		.timer = { .function = delayed_work_timer_fn }, \
	}
#define INIT_DELAYED_WORK(d, f) do { INIT_WORK(&(d)->work, f); timer_setup(&(d)->timer, delayed_work_timer_fn, 0); } while (0)
static inline struct delayed_work *to_delayed_work(struct work_struct *w)
{
	return container_of(w, struct delayed_work, work);
}
bool queue_work_on(int cpu, struct workqueue_struct *wq, struct work_struct *work);
static inline bool queue_work(struct workqueue_struct *wq, struct work_struct *work)
{
	return queue_work_on(smp_processor_id(), wq, work);
}
bool schedule_work(struct work_struct *work);
#define schedule_work_on(cpu, work) queue_work_on(cpu, system_wq, work)
bool schedule_delayed_work(struct delayed_work *dwork, unsigned long delay);
#define queue_delayed_work(wq, dwork, delay) \
	queue_delayed_work_on(smp_processor_id(), wq, dwork, delay)
bool cancel_work_sync(struct work_struct *work);
bool cancel_delayed_work_sync(struct delayed_work *dwork);
void destroy_workqueue(struct workqueue_struct *wq);
#define work_pending(work) test_bit(0, &(work)->pending)
#define delayed_work_pending(dwork) work_pending(&(dwork)->work)
bool queue_delayed_work_on(int cpu, struct workqueue_struct *wq, struct delayed_work *dwork,
			   unsigned long delay);
bool cancel_delayed_work(struct delayed_work *dwork);
bool flush_work(struct work_struct *work);
void __flush_workqueue(struct workqueue_struct *wq);
#define flush_workqueue(wq) __flush_workqueue(wq)
struct workqueue_struct *alloc_workqueue(const char *name, unsigned int flags, int max_active);
void workqueue_init_early(void);
