// SPDX-License-Identifier: GPL-2.0-or-later
/* The fair class: tasks in order of their virtual run time. */
#include <linux/kernel.h>
#include "sched.h"

#define SCHED_LATENCY 6000000ULL
#define SCHED_WAKEUP_GRANULARITY 1000000ULL
#define SCHED_MIN_GRANULARITY 3000000ULL
#define SCHED_STINT 1000ULL /* charged at least: the clock may stand still */

void init_cfs_rq(struct cfs_rq *cfs_rq)
{
	cfs_rq->tasks_timeline = RB_ROOT_CACHED;
	cfs_rq->min_vruntime = 1 << 20;
}

static bool __entity_less(struct rb_node *a, const struct rb_node *b)
{
	return (s64)(rb_entry(a, struct sched_entity, run_node)->vruntime -
		     rb_entry(b, struct sched_entity, run_node)->vruntime) < 0;
}

static void __enqueue_entity(struct cfs_rq *cfs_rq, struct sched_entity *se)
{
	rb_add_cached(&se->run_node, &cfs_rq->tasks_timeline, __entity_less);
}

static void __dequeue_entity(struct cfs_rq *cfs_rq, struct sched_entity *se)
{
	rb_erase_cached(&se->run_node, &cfs_rq->tasks_timeline);
}

static struct sched_entity *__pick_first_entity(struct cfs_rq *cfs_rq)
{
	struct rb_node *left = rb_first_cached(&cfs_rq->tasks_timeline);

	return left ? rb_entry(left, struct sched_entity, run_node) : NULL;
}

static noinline void update_min_vruntime(struct cfs_rq *cfs_rq)
{
	struct sched_entity *se = __pick_first_entity(cfs_rq), *curr = cfs_rq->curr;
	u64 v = cfs_rq->min_vruntime;

	if (curr)
		v = curr->vruntime;
	if (se && (!curr || (s64)(se->vruntime - v) < 0))
		v = se->vruntime;
	if ((s64)(v - cfs_rq->min_vruntime) > 0)
		cfs_rq->min_vruntime = v;
}

static noinline void update_curr(struct cfs_rq *cfs_rq)
{
	struct sched_entity *curr = cfs_rq->curr;
	u64 now = rq_of(cfs_rq)->clock, delta;

	if (!curr)
		return;
	delta = now - curr->exec_start;
	curr->exec_start = now;
	curr->sum_exec_runtime += delta;
	curr->vruntime += delta;
	update_min_vruntime(cfs_rq);
}

static void place_entity(struct cfs_rq *cfs_rq, struct sched_entity *se, int initial)
{
	u64 vruntime = cfs_rq->min_vruntime;

	if (initial)
		vruntime += SCHED_WAKEUP_GRANULARITY;
	else
		vruntime -= SCHED_LATENCY / 2;
	if (task_of(se)->flags & PF_HOST)
		vruntime -= SCHED_LATENCY;
	if ((s64)(vruntime - se->vruntime) > 0 || initial)
		se->vruntime = vruntime;
}

static void enqueue_entity(struct cfs_rq *cfs_rq, struct sched_entity *se, int flags)
{
	update_curr(cfs_rq);
	if (flags & ENQUEUE_WAKEUP)
		place_entity(cfs_rq, se, 0);
	if (se != cfs_rq->curr)
		__enqueue_entity(cfs_rq, se);
	se->on_rq = 1;
	cfs_rq->nr_running++;
}

static void enqueue_task_fair(struct rq *rq, struct task_struct *p, int flags)
{
	enqueue_entity(&rq->cfs, &p->se, flags);
	rq->nr_running++;
}

static void dequeue_entity(struct cfs_rq *cfs_rq, struct sched_entity *se, int flags)
{
	update_curr(cfs_rq);
	if (se != cfs_rq->curr)
		__dequeue_entity(cfs_rq, se);
	se->on_rq = 0;
	cfs_rq->nr_running--;
	update_min_vruntime(cfs_rq);
}

static void dequeue_task_fair(struct rq *rq, struct task_struct *p, int flags)
{
	dequeue_entity(&rq->cfs, &p->se, flags);
	rq->nr_running--;
}

static void set_next_entity(struct cfs_rq *cfs_rq, struct sched_entity *se)
{
	if (se->on_rq)
		__dequeue_entity(cfs_rq, se);
	se->exec_start = rq_of(cfs_rq)->clock;
	se->prev_sum_exec_runtime = se->sum_exec_runtime;
	cfs_rq->curr = se;
}

static void put_prev_entity(struct cfs_rq *cfs_rq, struct sched_entity *prev)
{
	update_curr(cfs_rq);
	prev->vruntime += SCHED_STINT;
	if (prev->on_rq)
		__enqueue_entity(cfs_rq, prev);
	cfs_rq->curr = NULL;
}

static void put_prev_task_fair(struct rq *rq, struct task_struct *prev)
{
	put_prev_entity(&rq->cfs, &prev->se);
}

static struct task_struct *pick_next_task_fair(struct rq *rq)
{
	struct sched_entity *se = __pick_first_entity(&rq->cfs);

	if (!se)
		return NULL;
	set_next_entity(&rq->cfs, se);
	return task_of(se);
}

static void yield_task_fair(struct rq *rq)
{
	struct cfs_rq *cfs_rq = &rq->cfs;
	struct rb_node *last = rb_last(&cfs_rq->tasks_timeline.rb_root);

	update_curr(cfs_rq);
	if (last)
		cfs_rq->curr->vruntime =
			max(cfs_rq->curr->vruntime,
			    rb_entry(last, struct sched_entity, run_node)->vruntime);
}

static int wakeup_preempt_entity(struct sched_entity *curr, struct sched_entity *se)
{
	s64 lead = curr->vruntime - se->vruntime;

	if (lead <= 0)
		return -1;
	return (u64)lead > SCHED_WAKEUP_GRANULARITY;
}

static void check_preempt_wakeup(struct rq *rq, struct task_struct *p, int flags)
{
	struct task_struct *curr = rq->curr;

	if (curr == p || is_idle_task(curr))
		return;
	update_curr(&rq->cfs);
	if (wakeup_preempt_entity(&curr->se, &p->se) == 1 ||
	    ((p->flags & PF_HOST) && !(curr->flags & PF_HOST)))
		resched_curr(rq);
}

static void check_preempt_tick(struct cfs_rq *cfs_rq, struct sched_entity *curr)
{
	if (curr->sum_exec_runtime - curr->prev_sum_exec_runtime > SCHED_MIN_GRANULARITY)
		resched_curr(rq_of(cfs_rq));
}

static void entity_tick(struct cfs_rq *cfs_rq, struct sched_entity *curr)
{
	update_curr(cfs_rq);
	if (cfs_rq->nr_running > 1)
		check_preempt_tick(cfs_rq, curr);
}

static void task_tick_fair(struct rq *rq, struct task_struct *curr)
{
	entity_tick(&rq->cfs, &curr->se);
}

static void task_fork_fair(struct task_struct *p)
{
	place_entity(&task_rq(p)->cfs, &p->se, 1);
}

const struct sched_class fair_sched_class = {
	.enqueue_task = enqueue_task_fair,
	.dequeue_task = dequeue_task_fair,
	.yield_task = yield_task_fair,
	.check_preempt_curr = check_preempt_wakeup,
	.pick_next_task = pick_next_task_fair,
	.put_prev_task = put_prev_task_fair,
	.task_tick = task_tick_fair,
	.task_fork = task_fork_fair,
};
