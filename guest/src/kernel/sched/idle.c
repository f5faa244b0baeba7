// SPDX-License-Identifier: GPL-2.0-or-later
/* The idle class and the loop a CPU is in when it has nothing to do. */
#include <kpfs/hypercall.h>
#include <linux/kernel.h>
#include <linux/tick.h>
#include "sched.h"

static void check_preempt_curr_idle(struct rq *rq, struct task_struct *p, int flags)
{
	resched_curr(rq);
}

static struct task_struct *pick_next_task_idle(struct rq *rq)
{
	return rq->idle;
}

/* Complain of a handler that has gone to sleep and had interrupted this CPU's idle task. */
static void dequeue_task_idle(struct rq *rq, struct task_struct *p, int flags)
{
	p->on_rq = 1;
	raw_spin_unlock_irq(&rq->__lock);
	pr_err("bad: scheduling from the idle thread!\n");
	dump_stack();
	raw_spin_lock_irq(&rq->__lock);
}

static void put_prev_task_idle(struct rq *rq, struct task_struct *prev) {}

static void task_tick_idle(struct rq *rq, struct task_struct *curr) {}

const struct sched_class idle_sched_class = {
	.dequeue_task = dequeue_task_idle,
	.check_preempt_curr = check_preempt_curr_idle,
	.pick_next_task = pick_next_task_idle,
	.put_prev_task = put_prev_task_idle,
	.task_tick = task_tick_idle,
};

/* Idle; Python runs the CPU again when it injects a vector or need_resched is set. */
noinstr void default_idle(void)
{
	local_irq_enable();
	hypercall(HC_IDLE, smp_processor_id());
}

static void cpuidle_idle_call(void)
{
	tick_nohz_idle_stop_tick();
	default_idle();
}

static void do_idle(void)
{
	tick_nohz_idle_enter();
	while (!need_resched()) {
		local_irq_disable();
		cpuidle_idle_call();
	}
	tick_nohz_idle_exit();
	schedule_idle();
}

void cpu_startup_entry(void)
{
	for (;;)
		do_idle();
}
