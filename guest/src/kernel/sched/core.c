// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The scheduler's core. A task stays on the CPU that fork gave it, unless Python has it run
 * elsewhere as that one is taken (kpfs_wake_requested).
 */
#include <kpfs/hypercall.h>
#include <linux/jump_label.h>
#include <linux/host.h>
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/string.h>
#include <trace/events/sched.h>
#include "sched.h"

DEFINE_PER_CPU_ALIGNED(struct rq, runqueues);
DEFINE_STATIC_CALL(cond_resched, __cond_resched);
#define __sched __section(".sched.text")

/* Let Python run the next CPU: the slow side of the poll word. */
noinline void kpfs_yield(void)
{
	hypercall(HC_YIELD, 0);
}

noinline void update_rq_clock(struct rq *rq)
{
	rq->clock = sched_clock();
}

void resched_curr(struct rq *rq)
{
	per_cpu(pcpu_hot, rq->cpu).need_resched = 1;
}

static void enqueue_task(struct rq *rq, struct task_struct *p, int flags)
{
	update_rq_clock(rq);
	p->sched_class->enqueue_task(rq, p, flags);
}

static void dequeue_task(struct rq *rq, struct task_struct *p, int flags)
{
	update_rq_clock(rq);
	p->sched_class->dequeue_task(rq, p, flags);
}

DEFINE_STATIC_KEY_FALSE(sched_schedstats);

static noinline void __update_stats(struct rq *rq, struct task_struct *p)
{
	rq->nr_wakeups++;
	if (task_cpu(p) != (unsigned int)smp_processor_id())
		rq->nr_remote_wakeups++;
}

noinline void activate_task(struct rq *rq, struct task_struct *p, int flags)
{
	enqueue_task(rq, p, flags);
	p->on_rq = 1;
}

noinline void deactivate_task(struct rq *rq, struct task_struct *p, int flags)
{
	p->on_rq = 0;
	dequeue_task(rq, p, flags);
}

static void check_preempt_curr(struct rq *rq, struct task_struct *p, int flags)
{
	rq->curr->sched_class->check_preempt_curr(rq, p, flags);
}

static void ttwu_do_wakeup(struct rq *rq, struct task_struct *p, int wake_flags)
{
	check_preempt_curr(rq, p, wake_flags);
	WRITE_ONCE(p->__state, TASK_RUNNING);
	trace_sched_wakeup(p);
}

static void ttwu_do_activate(struct rq *rq, struct task_struct *p, int wake_flags)
{
	if (static_branch_unlikely(&sched_schedstats))
		__update_stats(rq, p);
	activate_task(rq, p, ENQUEUE_WAKEUP);
	ttwu_do_wakeup(rq, p, wake_flags);
}

/* Wake a task that is on its queue still, awake or about to sleep: only its state changes. */
static int ttwu_runnable(struct rq *rq, struct task_struct *p, int wake_flags)
{
	if (!p->on_rq)
		return 0;
	update_rq_clock(rq);
	ttwu_do_wakeup(rq, p, wake_flags);
	return 1;
}

int try_to_wake_up(struct task_struct *p, unsigned int state, int wake_flags)
{
	struct rq *rq = task_rq(p);

	guard(raw_spinlock_irqsave)(&rq->__lock);
	if (!(READ_ONCE(p->__state) & state))
		return 0;
	trace_sched_waking(p);
	if (!ttwu_runnable(rq, p, wake_flags))
		ttwu_do_activate(rq, p, wake_flags);
	return 1;
}

int wake_up_process(struct task_struct *p)
{
	return try_to_wake_up(p, TASK_NORMAL, 0);
}

int wake_up_state(struct task_struct *p, unsigned int state)
{
	return try_to_wake_up(p, state, 0);
}

/* Take a task off the queue of its CPU, unless it runs, and give it to another; was it queued? */
static int sched_give(struct rq *from, struct rq *to, struct task_struct *p)
{
	int queued = p->on_rq;

	guard(raw_spinlock_irqsave)(&from->__lock);
	if (p->on_cpu)
		return 0;
	if (queued)
		deactivate_task(from, p, 0);
	p->se.vruntime += to->cfs.min_vruntime - from->cfs.min_vruntime;
	p->cpu = to->cpu;
	return queued;
}

/* Have a task belong to this CPU, whether it sleeps or waits for its own; interrupts are off. */
void sched_pull_task(struct task_struct *p)
{
	struct rq *rq = this_rq();

	if (!sched_give(task_rq(p), rq, p))
		return;
	guard(raw_spinlock)(&rq->__lock);
	activate_task(rq, p, 0);
	check_preempt_curr(rq, p, 0);
}

static int select_task_rq_fork(void)
{
	static unsigned int next;

	return next++ % nr_cpu_ids;
}

int sched_fork(unsigned long clone_flags, struct task_struct *p)
{
	memset(&p->se, 0, sizeof(p->se));
	p->__state = TASK_NEW;
	p->prio = p->static_prio = 120;
	p->sched_class = &fair_sched_class;
	p->on_rq = p->on_cpu = 0;
	p->cpu = select_task_rq_fork();
	return 0;
}

void wake_up_new_task(struct task_struct *p)
{
	struct rq *rq = task_rq(p);

	guard(raw_spinlock_irqsave)(&rq->__lock);
	WRITE_ONCE(p->__state, TASK_RUNNING);
	update_rq_clock(rq);
	p->sched_class->task_fork(p);
	activate_task(rq, p, ENQUEUE_INITIAL);
	trace_sched_wakeup_new(p);
	check_preempt_curr(rq, p, ENQUEUE_INITIAL);
}

static inline void prepare_task_switch(struct rq *rq, struct task_struct *prev,
				       struct task_struct *next)
{
	next->on_cpu = 1;
	rq->nr_switches++;
}

static void put_task_stack(struct task_struct *prev)
{
	put_task_struct(prev);
}

static noinline struct rq *finish_task_switch(struct task_struct *prev)
{
	struct rq *rq = this_rq();
	unsigned int prev_state = READ_ONCE(prev->__state);

	WRITE_ONCE(prev->on_cpu, 0);
	raw_spin_unlock_irq(&rq->__lock);
	if (unlikely(prev_state == TASK_DEAD)) {
		kprobe_flush_task(prev);
		put_task_stack(prev);
	}
	return rq;
}

asmlinkage __visible void schedule_tail(struct task_struct *prev)
{
	finish_task_switch(prev);
	preempt_enable();
}

struct task_struct *__switch_to_asm(struct task_struct *prev, struct task_struct *next);

static noinline struct rq *context_switch(struct rq *rq, struct task_struct *prev,
					  struct task_struct *next)
{
	prepare_task_switch(rq, prev, next);
	prev = __switch_to_asm(prev, next);
	barrier();
	return finish_task_switch(prev);
}

static void put_prev_task(struct rq *rq, struct task_struct *prev)
{
	prev->sched_class->put_prev_task(rq, prev);
}

static noinline struct task_struct *pick_next_task(struct rq *rq, struct task_struct *prev)
{
	put_prev_task(rq, prev);
	return fair_sched_class.pick_next_task(rq) ?: idle_sched_class.pick_next_task(rq);
}

static noinline void __schedule_bug(struct task_struct *prev)
{
	pr_err("BUG: scheduling while atomic: %s/%d/0x%08x\n", prev->comm, prev->pid,
	       preempt_count());
	print_modules();
	dump_stack();
	add_taint(TAINT_WARN, LOCKDEP_STILL_OK);
}

/*
 * Take off what the count has besides our own preempt_disable(), so that other tasks do not run
 * with it, and return it: it is put back when the task goes on.
 */
static inline int schedule_debug(struct task_struct *prev)
{
	int rest = preempt_count() - PREEMPT_OFFSET;

	if (unlikely(rest)) {
		if (!prev->sched_atomic)
			__schedule_bug(prev);
		set_preempt_count(PREEMPT_OFFSET);
	}
	prev->sched_atomic = rest != 0; /* it is said once, however often that sleeps */
	return rest;
}

/*
 * Note that the task is where it came to by itself, not where it was preempted: text may be
 * changed when each has been there. Without preemption it only stops at such places.
 */
static __always_inline void note_quiescent(struct task_struct *p, bool preempt)
{
	if (!preempt || !kpfs_configured(KPFS_CONFIG_PREEMPTION))
		p->nr_quiescent++;
}

static noinline notrace void __sched __schedule(bool preempt)
{
	struct rq *rq = this_rq();
	struct task_struct *prev = rq->curr, *next;
	int rest = schedule_debug(prev);
	unsigned int state;

	note_quiescent(prev, preempt);
	local_irq_disable();
	raw_spin_lock(&rq->__lock);
	update_rq_clock(rq);
	state = READ_ONCE(prev->__state);
	if (!preempt && state) {
		if ((state & TASK_INTERRUPTIBLE) && unlikely(signal_pending(prev)))
			WRITE_ONCE(prev->__state, TASK_RUNNING);
		else
			deactivate_task(rq, prev, DEQUEUE_SLEEP);
		prev->nvcsw++;
	} else {
		prev->nivcsw++;
	}
	next = pick_next_task(rq, prev);
	set_preempt_need_resched(0);
	if (likely(prev != next)) {
		rq->curr = next;
		trace_sched_switch(preempt, prev, next, state);
		context_switch(rq, prev, next);
	} else {
		raw_spin_unlock_irq(&rq->__lock);
	}
	if (unlikely(rest))
		preempt_count_add(rest);
}

/* End the task, which must not be preempted any more: the task that runs next frees it. */
void __noreturn do_task_dead(void)
{
	preempt_disable();
	set_current_state(TASK_DEAD);
	__schedule(false);
	BUG();
}

noinline void __sched schedule(void)
{
	poll_credit();
	do {
		preempt_disable();
		__schedule(false);
		preempt_enable_no_resched();
	} while (need_resched());
}

/* Schedule from the idle task, with preemption off. */
void __sched schedule_idle(void)
{
	do {
		__schedule(false);
	} while (need_resched());
}

void __sched schedule_preempt_disabled(void)
{
	preempt_enable_no_resched();
	schedule();
	preempt_disable();
}

static notrace void __sched preempt_schedule_common(void)
{
	do {
		preempt_disable();
		__schedule(true);
		preempt_enable_no_resched();
	} while (need_resched());
}

/* Preempt the task, from preempt_enable(). */
notrace void __sched preempt_schedule(void)
{
	if (likely(!preemptible()) || !kpfs_configured(KPFS_CONFIG_PREEMPTION))
		return;
	preempt_schedule_common();
}
NOKPROBE_SYMBOL(preempt_schedule);

/* Preempt the task on the way out of an interrupt, interrupts off. */
void __sched preempt_schedule_irq(void)
{
	do {
		preempt_disable();
		local_irq_enable();
		__schedule(true);
		local_irq_disable();
		preempt_enable_no_resched();
	} while (need_resched());
}

int __sched __cond_resched(void)
{
	poll_credit();
	if (preempt_count() == 0 && need_resched()) {
		preempt_schedule_common();
		return 1;
	}
	note_quiescent(current, true);
	return 0;
}

static void do_sched_yield(void)
{
	struct rq *rq = this_rq();

	raw_spin_lock_irq(&rq->__lock);
	update_rq_clock(rq);
	current->sched_class->yield_task(rq);
	raw_spin_unlock_irq(&rq->__lock);
	schedule();
}

void yield(void)
{
	set_current_state(TASK_RUNNING);
	do_sched_yield();
}

/* Charge the task, from the tick, interrupts off. */
void scheduler_tick(void)
{
	struct rq *rq = this_rq();

	guard(raw_spinlock)(&rq->__lock);
	update_rq_clock(rq);
	rq->curr->sched_class->task_tick(rq, rq->curr);
}

int idle_cpu(int cpu)
{
	struct rq *rq = cpu_rq(cpu);

	return rq->curr == rq->idle && !rq->nr_running;
}

unsigned int nr_running(void)
{
	unsigned int cpu, sum = 0;

	for_each_online_cpu(cpu)
		sum += cpu_rq(cpu)->nr_running;
	return sum;
}

unsigned long long nr_context_switches(void)
{
	unsigned long long sum = 0;
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		sum += cpu_rq(cpu)->nr_switches;
	return sum;
}

void set_user_nice(struct task_struct *p, long nice)
{
	p->static_prio = p->prio = 120 + nice;
}

void init_idle(struct task_struct *idle, int cpu)
{
	struct rq *rq = cpu_rq(cpu);

	idle->__state = TASK_RUNNING;
	idle->flags |= PF_IDLE;
	idle->prio = idle->static_prio = 120;
	idle->sched_class = &idle_sched_class;
	idle->cpu = cpu;
	idle->on_cpu = idle->on_rq = 1;
	snprintf(idle->comm, sizeof(idle->comm), "swapper/%d", cpu);
	rq->curr = rq->idle = idle;
	per_cpu(pcpu_hot, cpu).current_task = (unsigned long)idle;
	per_cpu(pcpu_hot, cpu).preempt_count = 1;
}

void __init sched_init(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		struct rq *rq = cpu_rq(cpu);

		raw_spin_lock_init(&rq->__lock);
		rq->cpu = cpu;
		init_cfs_rq(&rq->cfs);
	}
	init_idle(&init_task, 0);
}

#include <linux/syscalls.h>
SYSCALL_DEFINE0(sched_yield)
{
	do_sched_yield();
	return 0;
}
