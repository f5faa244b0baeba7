/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/sched.h>

struct cfs_rq {
	unsigned int nr_running;
	u64 min_vruntime;
	struct rb_root_cached tasks_timeline;
	struct sched_entity *curr;
};

struct rq {
	raw_spinlock_t __lock;
	unsigned int nr_running;
	int cpu;
	struct cfs_rq cfs;
	struct task_struct *curr, *idle;
	u64 clock;
	u64 nr_switches;
	u64 nr_wakeups, nr_remote_wakeups; /* with sched_schedstats */
};
DECLARE_PER_CPU(struct rq, runqueues);
#define cpu_rq(cpu) (&per_cpu(runqueues, cpu))
#define this_rq() this_cpu_ptr(&runqueues)
#define task_rq(p) cpu_rq(task_cpu(p))
#define rq_of(cfs_rq) container_of(cfs_rq, struct rq, cfs)
#define task_of(e) container_of(e, struct task_struct, se)

#define ENQUEUE_WAKEUP 1
#define ENQUEUE_INITIAL 2
#define DEQUEUE_SLEEP 1

struct sched_class {
	void (*enqueue_task)(struct rq *rq, struct task_struct *p, int flags);
	void (*dequeue_task)(struct rq *rq, struct task_struct *p, int flags);
	void (*yield_task)(struct rq *rq);
	void (*check_preempt_curr)(struct rq *rq, struct task_struct *p, int flags);
	struct task_struct *(*pick_next_task)(struct rq *rq);
	void (*put_prev_task)(struct rq *rq, struct task_struct *p);
	void (*task_tick)(struct rq *rq, struct task_struct *p);
	void (*task_fork)(struct task_struct *p);
};
extern const struct sched_class fair_sched_class, idle_sched_class;
void resched_curr(struct rq *rq);
void init_cfs_rq(struct cfs_rq *cfs_rq);
