/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Signals of tasks, and walks over all tasks: under rcu_read_lock() or tasklist_lock. */
#pragma once
#include <linux/sched.h>

static inline int signal_pending(struct task_struct *p) { return p->pending != 0; }
#define fatal_signal_pending(p) (((p)->pending >> SIGKILL) & 1)
int send_sig(int sig, struct task_struct *p, int priv);

#define next_task(p) list_entry(READ_ONCE((p)->tasks.next), struct task_struct, tasks)
#define thread_group_leader(p) ((p)->group_leader == (p))
static inline bool same_thread_group(struct task_struct *a, struct task_struct *b)
{
	return a->group_leader == b->group_leader;
}
/* All tasks, threads too, are in one list. */
#define __for_each_task(p, wanted) \
	for (p = &init_task; (p = next_task(p)) != &init_task;) \
		if (!(wanted)) { \
		} else
#define for_each_process(p) __for_each_task(p, thread_group_leader(p))
#define for_each_thread(p, t) __for_each_task(t, same_thread_group(p, t))
#define for_each_process_thread(p, t) \
	for_each_process(p) for_each_thread(p, t)
