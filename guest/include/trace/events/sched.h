/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/tracepoint.h>

struct task_struct;
DECLARE_TRACE(sched_switch,
	      TP_PROTO(bool preempt, struct task_struct *prev, struct task_struct *next,
		       unsigned int prev_state),
	      TP_ARGS(preempt, prev, next, prev_state))
DECLARE_TRACE(sched_waking, TP_PROTO(struct task_struct *p), TP_ARGS(p))
DECLARE_TRACE(sched_wakeup, TP_PROTO(struct task_struct *p), TP_ARGS(p))
DECLARE_TRACE(sched_wakeup_new, TP_PROTO(struct task_struct *p), TP_ARGS(p))
DECLARE_TRACE(sched_process_fork, TP_PROTO(struct task_struct *parent, struct task_struct *child),
	      TP_ARGS(parent, child))
DECLARE_TRACE(sched_process_exit, TP_PROTO(struct task_struct *p), TP_ARGS(p))
DECLARE_TRACE(sched_process_free, TP_PROTO(struct task_struct *p), TP_ARGS(p))
