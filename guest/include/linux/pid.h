/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/sched.h>

/*
 * Pids given by the kernel itself start above any that a host can have. Their last 15 bits, by
 * which traces find the names of tasks, are not those of the first processes of a container.
 */
#define RESERVED_PIDS 0x407f01

struct pid {
	refcount_t count;
	pid_t nr;
	struct hlist_node pid_chain;
	struct hlist_head tasks;
};
struct pid *alloc_pid(pid_t set_tid);
struct pid *find_vpid(pid_t nr);
struct task_struct *pid_task(struct pid *pid);
void attach_pid(struct task_struct *task);
void detach_pid(struct task_struct *task);
void pid_idr_init(void);
