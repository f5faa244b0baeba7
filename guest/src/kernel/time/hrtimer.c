// SPDX-License-Identifier: GPL-2.0-or-later
/* High resolution timers, in order of expiry on each CPU. */
#include <linux/hrtimer.h>
#include <linux/kernel.h>
#include <linux/rescue.h>
#include <linux/sched.h>
#include <linux/syscalls.h>

static DEFINE_PER_CPU_ALIGNED(struct hrtimer_cpu_base, hrtimer_bases);

static bool __timerqueue_less(struct rb_node *a, const struct rb_node *b)
{
	return rb_entry(a, struct timerqueue_node, node)->expires <
	       rb_entry(b, struct timerqueue_node, node)->expires;
}

noinline bool timerqueue_add(struct timerqueue_head *head, struct timerqueue_node *node)
{
	return rb_add_cached(&node->node, &head->rb_root, __timerqueue_less);
}

noinline bool timerqueue_del(struct timerqueue_head *head, struct timerqueue_node *node)
{
	rb_erase_cached(&node->node, &head->rb_root);
	return rb_first_cached(&head->rb_root) != NULL;
}

static inline struct timerqueue_node *timerqueue_getnext(struct timerqueue_head *head)
{
	struct rb_node *left = rb_first_cached(&head->rb_root);

	return left ? rb_entry(left, struct timerqueue_node, node) : NULL;
}

static noinline ktime_t __hrtimer_get_next_event(struct hrtimer_cpu_base *base)
{
	struct timerqueue_node *next = timerqueue_getnext(&base->active);

	return next ? next->expires : KTIME_MAX;
}

static void hrtimer_reprogram(struct hrtimer *timer)
{
	struct hrtimer_cpu_base *base = timer->base;

	if (base->in_hrtirq || timer->node.expires >= base->expires_next)
		return;
	base->expires_next = timer->node.expires;
	tick_program_event(base->expires_next);
}

static bool enqueue_hrtimer(struct hrtimer *timer, struct hrtimer_cpu_base *base)
{
	timer->state = 1;
	return timerqueue_add(&base->active, &timer->node);
}

static void hrtimer_force_reprogram(struct hrtimer_cpu_base *base)
{
	ktime_t next = __hrtimer_get_next_event(base);

	if (next == base->expires_next)
		return;
	base->expires_next = next;
	tick_program_event(next);
}

static noinline void __remove_hrtimer(struct hrtimer *timer, struct hrtimer_cpu_base *base,
				      int reprogram)
{
	timer->state = 0;
	timerqueue_del(&base->active, &timer->node);
	if (reprogram && timer->node.expires == base->expires_next)
		hrtimer_force_reprogram(base);
}

static noinline int remove_hrtimer(struct hrtimer *timer, struct hrtimer_cpu_base *base)
{
	if (!hrtimer_active(timer))
		return 0;
	__remove_hrtimer(timer, base, base == this_cpu_ptr(&hrtimer_bases) && !base->in_hrtirq);
	return 1;
}

noinline void hrtimer_init(struct hrtimer *timer, clockid_t clock, enum hrtimer_mode mode)
{
	timer->state = 0;
	timer->base = this_cpu_ptr(&hrtimer_bases);
	timer->function = NULL;
}

void hrtimer_start_range_ns(struct hrtimer *timer, ktime_t tim, u64 delta, enum hrtimer_mode mode)
{
	struct hrtimer_cpu_base *base;

	guard(irqs)();
	base = timer->base;
	guard(raw_spinlock)(&base->lock);
	remove_hrtimer(timer, base);
	timer->base = base;
	timer->node.expires = mode == HRTIMER_MODE_REL ? ktime_add_safe(ktime_get(), tim) : tim;
	if (enqueue_hrtimer(timer, base) && base == this_cpu_ptr(&hrtimer_bases))
		hrtimer_reprogram(timer);
}

noinline int hrtimer_try_to_cancel(struct hrtimer *timer)
{
	struct hrtimer_cpu_base *base = timer->base;

	if (!hrtimer_active(timer))
		return 0;
	guard(raw_spinlock_irqsave)(&base->lock);
	return remove_hrtimer(timer, base);
}

noinline int hrtimer_cancel(struct hrtimer *timer)
{
	return hrtimer_try_to_cancel(timer);
}

u64 hrtimer_forward(struct hrtimer *timer, ktime_t now, ktime_t interval)
{
	u64 orun;

	if (now < timer->node.expires)
		return 0;
	orun = (now - timer->node.expires) / interval + 1;
	timer->node.expires += orun * interval;
	return orun;
}

static void __run_hrtimer(struct hrtimer_cpu_base *base, struct hrtimer *timer)
{
	enum hrtimer_restart restart = HRTIMER_NORESTART;

	__remove_hrtimer(timer, base, 0);
	raw_spin_unlock(&base->lock);
	call_rescued(this_cpu_ptr(&irq_rescue), restart = timer->function(timer));
	raw_spin_lock(&base->lock);
	if (restart == HRTIMER_RESTART && !hrtimer_active(timer))
		enqueue_hrtimer(timer, base);
}

static void __hrtimer_run_queues(struct hrtimer_cpu_base *base, ktime_t now)
{
	struct timerqueue_node *node;

	while ((node = timerqueue_getnext(&base->active)) && node->expires <= now)
		__run_hrtimer(base, container_of(node, struct hrtimer, node));
}

/* Do the work of the timer interrupt. */
void hrtimer_interrupt(void)
{
	struct hrtimer_cpu_base *base = this_cpu_ptr(&hrtimer_bases);

	base->nr_events++;
	raw_spin_lock(&base->lock);
	base->in_hrtirq = true;
	__hrtimer_run_queues(base, ktime_get());
	base->in_hrtirq = false;
	base->expires_next = __hrtimer_get_next_event(base);
	raw_spin_unlock(&base->lock);
	tick_program_event(base->expires_next);
}

static enum hrtimer_restart hrtimer_wakeup(struct hrtimer *timer)
{
	struct hrtimer_sleeper *t = container_of(timer, struct hrtimer_sleeper, timer);
	struct task_struct *task = t->task;

	t->task = NULL;
	if (task)
		wake_up_process(task);
	return HRTIMER_NORESTART;
}

/* Sleep in the state that is set until a time, of the clock that the mode says; -EINTR: woken before. */
int schedule_hrtimeout_range(ktime_t *expires, u64 delta, const enum hrtimer_mode mode)
{
	struct hrtimer_sleeper t;

	hrtimer_init(&t.timer, CLOCK_MONOTONIC, mode);
	t.timer.function = hrtimer_wakeup;
	t.task = current;
	hrtimer_start(&t.timer, *expires, mode);
	if (likely(t.task))
		schedule();
	hrtimer_cancel(&t.timer);
	__set_current_state(TASK_RUNNING);
	return t.task ? -EINTR : 0;
}

static int do_nanosleep(struct hrtimer_sleeper *t, ktime_t expires)
{
	do {
		set_current_state(TASK_INTERRUPTIBLE);
		hrtimer_start(&t->timer, expires, HRTIMER_MODE_ABS);
		if (likely(t->task))
			schedule();
		hrtimer_cancel(&t->timer);
	} while (t->task && !signal_pending(current));
	__set_current_state(TASK_RUNNING);
	return t->task ? -EINTR : 0;
}

long hrtimer_nanosleep(ktime_t rqtp)
{
	struct hrtimer_sleeper t;

	hrtimer_init(&t.timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	t.timer.function = hrtimer_wakeup;
	t.task = current;
	return do_nanosleep(&t, ktime_add_safe(ktime_get(), rqtp));
}

int get_timespec64(struct timespec64 *ts, const void __user *uts);

struct __kernel_timespec;

SYSCALL_DEFINE2(nanosleep, struct __kernel_timespec __user *, rqtp,
		struct __kernel_timespec __user *, rmtp)
{
	struct timespec64 tu;

	return get_timespec64(&tu, rqtp) ?: hrtimer_nanosleep(ktime_set(tu.tv_sec, tu.tv_nsec));
}

void __init hrtimers_init(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct hrtimer_cpu_base *base = &per_cpu(hrtimer_bases, cpu);

		base->cpu = cpu;
		base->expires_next = KTIME_MAX;
		base->active.rb_root = RB_ROOT_CACHED;
	}
}
