// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The tick: a high resolution timer on each CPU while it has something to do. An idle CPU
 * stops it and asks to be woken at its next timer only.
 */
#include <kpfs/hypercall.h>
#include <linux/hrtimer.h>
#include <linux/jiffies.h>
#include <linux/sched.h>
#include <linux/tick.h>
#include <linux/timer.h>
#include "timekeeping.h"

struct tick_sched {
	struct hrtimer sched_timer;
	ktime_t last_tick;
	ktime_t idle_entrytime;
	unsigned long idle_calls, idle_sleeps;
	int tick_stopped, inidle;
};
static DEFINE_PER_CPU(struct tick_sched, tick_cpu_sched);

/* Set the CPU's timer device: Python looks at next_deadline when a turn ends. */
static int lapic_next_event(unsigned long deadline)
{
	this_cpu_ptr(&pcpu_hot)->next_deadline = deadline;
	return 0;
}

static int clockevents_program_event(ktime_t expires)
{
	return lapic_next_event(expires == KTIME_MAX ? ~0UL : (unsigned long)expires);
}

void tick_program_event(ktime_t expires)
{
	clockevents_program_event(expires);
}

noinline void account_process_tick(struct task_struct *p, int user_tick)
{
	if (user_tick)
		p->utime += TICK_NSEC;
	else
		p->stime += TICK_NSEC;
}

noinline void update_process_times(int user_tick)
{
	account_process_tick(current, user_tick);
	run_local_timers();
	scheduler_tick();
}

static void tick_sched_do_timer(struct tick_sched *ts, ktime_t now)
{
	tick_do_update_jiffies64(now);
}

static void tick_sched_handle(struct tick_sched *ts)
{
	update_process_times(0);
}

static enum hrtimer_restart tick_sched_timer(struct hrtimer *timer)
{
	struct tick_sched *ts = container_of(timer, struct tick_sched, sched_timer);
	ktime_t now = ktime_get();

	tick_sched_do_timer(ts, now);
	tick_sched_handle(ts);
	if (unlikely(ts->tick_stopped))
		return HRTIMER_NORESTART;
	hrtimer_forward(timer, now, TICK_NSEC);
	return HRTIMER_RESTART;
}

void tick_setup_sched_timer(void)
{
	struct tick_sched *ts = this_cpu_ptr(&tick_cpu_sched);

	hrtimer_init(&ts->sched_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	ts->sched_timer.function = tick_sched_timer;
	hrtimer_start(&ts->sched_timer, jiffies_to_ktime(jiffies + 1), HRTIMER_MODE_ABS);
}

static void tick_nohz_update_jiffies(ktime_t now)
{
	tick_do_update_jiffies64(now);
}

/* Update jiffies, from irq_enter_rcu(): they may be old if the CPU was idle. */
void tick_irq_enter(void)
{
	if (this_cpu_ptr(&tick_cpu_sched)->tick_stopped)
		tick_nohz_update_jiffies(ktime_get());
}

static ktime_t tick_nohz_next_event(struct tick_sched *ts)
{
	unsigned long next = get_next_timer_interrupt();

	return next == jiffies - 1 ? KTIME_MAX : jiffies_to_ktime(next);
}

static void tick_nohz_stop_tick(struct tick_sched *ts)
{
	ktime_t expires = tick_nohz_next_event(ts);

	if (ts->tick_stopped && hrtimer_active(&ts->sched_timer) &&
	    hrtimer_get_expires(&ts->sched_timer) == expires)
		return;
	ts->tick_stopped = 1;
	ts->idle_sleeps++;
	if (expires == KTIME_MAX)
		hrtimer_cancel(&ts->sched_timer);
	else
		hrtimer_start(&ts->sched_timer, expires, HRTIMER_MODE_ABS);
}

void tick_nohz_idle_enter(void)
{
	struct tick_sched *ts = this_cpu_ptr(&tick_cpu_sched);

	ts->inidle = 1;
	ts->idle_entrytime = ktime_get();
}

/* Stop the tick of an idle CPU, interrupts off. */
void tick_nohz_idle_stop_tick(void)
{
	struct tick_sched *ts = this_cpu_ptr(&tick_cpu_sched);

	ts->idle_calls++;
	tick_nohz_stop_tick(ts);
}

static void tick_nohz_restart_sched_tick(struct tick_sched *ts, ktime_t now)
{
	tick_do_update_jiffies64(now);
	ts->tick_stopped = 0;
	hrtimer_start(&ts->sched_timer, jiffies_to_ktime(jiffies + 1), HRTIMER_MODE_ABS);
}

void tick_nohz_idle_exit(void)
{
	struct tick_sched *ts = this_cpu_ptr(&tick_cpu_sched);

	local_irq_disable();
	ts->inidle = 0;
	if (ts->tick_stopped)
		tick_nohz_restart_sched_tick(ts, ktime_get());
	local_irq_enable();
}
