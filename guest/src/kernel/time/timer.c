// SPDX-License-Identifier: GPL-2.0-or-later
/* Timers in jiffies: on each CPU a list in order of expiry. */
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/jiffies.h>
#include <linux/rescue.h>
#include <linux/sched.h>
#include <linux/timer.h>

struct timer_base {
	raw_spinlock_t lock;
	struct timer_list *running_timer;
	unsigned long clk; /* the first jiffy whose timers have not run yet */
	struct list_head pending;
};
static DEFINE_PER_CPU(struct timer_base, timer_bases);

static noinline void enqueue_timer(struct timer_base *base, struct timer_list *timer)
{
	struct timer_list *t;

	list_for_each_entry(t, &base->pending, entry)
		if (time_before(timer->expires, t->expires))
			break;
	list_add_tail(&timer->entry, &t->entry);
	timer->base = base;
}

static void internal_add_timer(struct timer_base *base, struct timer_list *timer)
{
	enqueue_timer(base, timer);
}

static noinline void detach_timer(struct timer_list *timer, bool clear_pending)
{
	list_del(&timer->entry);
	if (clear_pending)
		timer->entry.next = NULL;
}

static noinline int detach_if_pending(struct timer_list *timer, struct timer_base *base, bool clear)
{
	if (!timer_pending(timer))
		return 0;
	detach_timer(timer, clear);
	return 1;
}

static noinline int __mod_timer(struct timer_list *timer, unsigned long expires, int cpu)
{
	struct timer_base *base = timer->base;
	unsigned long flags;
	int ret;

	if (!base)
		base = timer->base = per_cpu_ptr(&timer_bases, cpu);
	if (timer_pending(timer) && timer->expires == expires)
		return 1;
	raw_spin_lock_irqsave(&base->lock, flags);
	ret = detach_if_pending(timer, base, false);
	raw_spin_unlock(&base->lock);
	base = per_cpu_ptr(&timer_bases, cpu);
	raw_spin_lock(&base->lock);
	timer->expires = expires;
	internal_add_timer(base, timer);
	raw_spin_unlock_irqrestore(&base->lock, flags);
	return ret;
}

noinline void init_timer_key(struct timer_list *t, void (*fn)(struct timer_list *),
			     unsigned int flags)
{
	t->entry.next = NULL;
	t->function = fn;
	t->flags = flags;
	t->base = NULL;
}

int mod_timer(struct timer_list *timer, unsigned long expires)
{
	return __mod_timer(timer, expires, smp_processor_id());
}

void add_timer(struct timer_list *timer)
{
	WARN_ON_ONCE(timer_pending(timer));
	__mod_timer(timer, timer->expires, smp_processor_id());
}

void add_timer_on(struct timer_list *timer, int cpu)
{
	WARN_ON_ONCE(timer_pending(timer));
	__mod_timer(timer, timer->expires, cpu);
}

noinline int timer_delete(struct timer_list *timer)
{
	struct timer_base *base = timer->base;

	if (!base || !timer_pending(timer))
		return 0;
	guard(raw_spinlock_irqsave)(&base->lock);
	return detach_if_pending(timer, base, true);
}

noinline int timer_delete_sync(struct timer_list *timer)
{
	while (timer->base && timer->base->running_timer == timer)
		cond_resched();
	return timer_delete(timer);
}

static noinline void call_timer_fn(struct timer_list *timer, void (*fn)(struct timer_list *))
{
	int count = preempt_count();

	call_rescued(this_cpu_ptr(&irq_rescue), fn(timer));
	WARN_ON_ONCE(count != preempt_count());
}

static void expire_timers(struct timer_base *base, struct timer_list *timer)
{
	base->running_timer = timer;
	detach_timer(timer, true);
	raw_spin_unlock_irq(&base->lock);
	call_timer_fn(timer, timer->function);
	raw_spin_lock_irq(&base->lock);
	base->running_timer = NULL;
}

/* Move the timers that are due; what becomes due meanwhile waits for the next jiffy. */
static void collect_expired_timers(struct timer_base *base, struct list_head *expired)
{
	struct timer_list *timer;

	while ((timer = list_first_entry_or_null(&base->pending, struct timer_list, entry)) &&
	       time_before(timer->expires, base->clk))
		list_move_tail(&timer->entry, expired);
}

static void __run_timers(struct timer_base *base)
{
	struct timer_list *timer;
	LIST_HEAD(expired);

	guard(raw_spinlock_irq)(&base->lock);
	if (time_before_eq(base->clk, jiffies)) {
		base->clk = jiffies + 1;
		collect_expired_timers(base, &expired);
	}
	while ((timer = list_first_entry_or_null(&expired, struct timer_list, entry)))
		expire_timers(base, timer);
}

static void run_timer_softirq(struct softirq_action *h)
{
	__run_timers(this_cpu_ptr(&timer_bases));
}

/* Raise the softirq, from the tick, if there is a timer to run. */
void run_local_timers(void)
{
	struct timer_base *base = this_cpu_ptr(&timer_bases);
	struct timer_list *t;

	t = list_first_entry_or_null(&base->pending, struct timer_list, entry);
	if (t && time_before_eq(t->expires, jiffies) && time_before_eq(base->clk, jiffies))
		raise_softirq_irqoff(TIMER_SOFTIRQ);
}

/*
 * Return the jiffies at which this CPU's first timer runs, or jiffies - 1 if it has none. One whose
 * time is over, as another CPU has counted jiffies meanwhile, runs now.
 */
unsigned long get_next_timer_interrupt(void)
{
	struct timer_base *base = this_cpu_ptr(&timer_bases);
	unsigned long now = jiffies, next;
	struct timer_list *t;

	t = list_first_entry_or_null(&base->pending, struct timer_list, entry);
	if (!t)
		return now - 1;
	next = time_before(t->expires, base->clk) ? base->clk : t->expires;
	return time_before(next, now) ? now : next;
}

struct process_timer {
	struct timer_list timer;
	struct task_struct *task;
};

static void process_timeout(struct timer_list *t)
{
	struct process_timer *timeout = from_timer(timeout, t, timer);

	wake_up_process(timeout->task);
}

noinline long schedule_timeout(long timeout)
{
	struct process_timer timer;
	unsigned long expire;

	if (timeout == MAX_SCHEDULE_TIMEOUT) {
		schedule();
		return timeout;
	}
	if (timeout < 0) {
		__set_current_state(TASK_RUNNING);
		return 0;
	}
	expire = timeout + jiffies;
	timer.task = current;
	timer_setup_on_stack(&timer.timer, process_timeout, 0);
	__mod_timer(&timer.timer, expire, smp_processor_id());
	schedule();
	del_timer_sync(&timer.timer);
	timeout = expire - jiffies;
	return timeout < 0 ? 0 : timeout;
}

noinline long schedule_timeout_interruptible(long timeout)
{
	__set_current_state(TASK_INTERRUPTIBLE);
	return schedule_timeout(timeout);
}

noinline long schedule_timeout_uninterruptible(long timeout)
{
	__set_current_state(TASK_UNINTERRUPTIBLE);
	return schedule_timeout(timeout);
}

void msleep(unsigned int msecs)
{
	unsigned long timeout = msecs_to_jiffies(msecs) + 1;

	while (timeout)
		timeout = schedule_timeout_uninterruptible(timeout);
}

void usleep_range_state(unsigned long min, unsigned long max, unsigned int state)
{
	ktime_t end = ktime_get() + min * NSEC_PER_USEC;

	do
		__set_current_state(state);
	while (schedule_hrtimeout_range(&end, (max - min) * NSEC_PER_USEC, HRTIMER_MODE_ABS));
}

unsigned long msleep_interruptible(unsigned int msecs)
{
	unsigned long timeout = msecs_to_jiffies(msecs) + 1;

	while (timeout && !signal_pending(current))
		timeout = schedule_timeout_interruptible(timeout);
	return jiffies_to_msecs(timeout);
}

void __init init_timers(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		INIT_LIST_HEAD(&per_cpu(timer_bases, cpu).pending);
		per_cpu(timer_bases, cpu).clk = jiffies;
	}
	open_softirq(TIMER_SOFTIRQ, run_timer_softirq);
}
