// SPDX-License-Identifier: GPL-2.0-or-later
/* The trace points of the kernel, and the records of their events. */
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/syscalls.h>
#include <linux/trace_events.h>
#include <linux/unistd.h>
#include <trace/events/sched.h>
#include <trace/events/syscalls.h>

/*
 * __traceiter_NAME() calls what records; where that is all it jumps there, so that it is in
 * no stack trace: Linux does not go through it for one function alone.
 */
void (*trace_event_commit)(unsigned long event, void *record, unsigned long size);

/* Tells the recorder of a task that another one has made, and (self 0) of one that is gone. */
void (*trace_follow_fork)(unsigned long self, unsigned long task);

/* ---- sched */

DEFINE_TRACEPOINT(sched_switch, NULL, NULL);
#define SCHED_SWITCH_FIELDS(f) \
	f(sched_switch, char, prev_comm, [16]) \
	f(sched_switch, pid_t, prev_pid, ) \
	f(sched_switch, int, prev_prio, ) \
	f(sched_switch, long, prev_state, ) \
	f(sched_switch, char, next_comm, [16]) \
	f(sched_switch, pid_t, next_pid, ) \
	f(sched_switch, int, next_prio, )
TRACE_EVENT_FIELDS(sched_switch, SCHED_SWITCH_FIELDS);
#define REPORTED "(((0x00000000 | 0x00000001 | 0x00000002 | 0x00000004 | 0x00000008 | 0x00000010 | " \
	"0x00000020 | 0x00000040) + 1) << 1)"
DEFINE_TRACE_EVENT(
	sched, sched_switch, sched_switch,
	"\"prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%s%s ==> next_comm=%s next_pid=%d next_prio=%d\", "
	"REC->prev_comm, REC->prev_pid, REC->prev_prio, (REC->prev_state & (" REPORTED " - 1)) ? "
	"__print_flags(REC->prev_state & (" REPORTED " - 1), \"|\", { 0x00000001, \"S\" }, "
	"{ 0x00000002, \"D\" }, { 0x00000004, \"T\" }, { 0x00000008, \"t\" }, { 0x00000010, \"X\" }, "
	"{ 0x00000020, \"Z\" }, { 0x00000040, \"P\" }, { 0x00000080, \"I\" }) : \"R\", "
	"REC->prev_state & " REPORTED
	" ? \"+\" : \"\", REC->next_comm, REC->next_pid, REC->next_prio");

#define TASK_REPORT_MAX 0x100
#define TASK_REPORT 0x7f

static __always_inline long switch_state(bool preempt, unsigned int prev_state,
					 struct task_struct *p)
{
	unsigned int state = (prev_state | p->exit_state) & TASK_REPORT;

	return preempt ? TASK_REPORT_MAX : state ? 1L << (31 - __builtin_clz(state)) : 0;
}

static noinline notrace void trace_event_raw_event_sched_switch(bool preempt,
								struct task_struct *prev,
								struct task_struct *next,
								unsigned int prev_state)
{
	struct trace_event_raw_sched_switch e;

	memcpy(e.prev_comm, prev->comm, TASK_COMM_LEN);
	e.prev_pid = prev->pid;
	e.prev_prio = prev->prio;
	e.prev_state = switch_state(preempt, prev_state, prev);
	memcpy(e.next_comm, next->comm, TASK_COMM_LEN);
	e.next_pid = next->pid;
	e.next_prio = next->prio;
	trace_event_commit(trace_event_sched_switch, &e, sizeof(e));
	barrier();
}

notrace void __traceiter_sched_switch(bool preempt, struct task_struct *prev,
				      struct task_struct *next, unsigned int prev_state)
{
	CALL_TRACE_PROBES(sched_switch,
			  PARAMS(bool, struct task_struct *, struct task_struct *, unsigned int),
			  PARAMS(preempt, prev, next, prev_state));
	if (trace_event_sched_switch)
		trace_event_raw_event_sched_switch(preempt, prev, next, prev_state);
}

/* The fields of three events. */
#define SCHED_WAKEUP_FIELDS(f) \
	f(sched_wakeup_template, char, comm, [16]) \
	f(sched_wakeup_template, pid_t, pid, ) \
	f(sched_wakeup_template, int, prio, ) \
	f(sched_wakeup_template, int, target_cpu, )
TRACE_EVENT_FIELDS(sched_wakeup_template, SCHED_WAKEUP_FIELDS);
#define trace_event_fields_sched_waking trace_event_fields_sched_wakeup_template
#define trace_event_fields_sched_wakeup trace_event_fields_sched_wakeup_template
#define trace_event_fields_sched_wakeup_new trace_event_fields_sched_wakeup_template

static noinline notrace void trace_event_raw_event_sched_wakeup_template(unsigned long event,
									 struct task_struct *p)
{
	struct trace_event_raw_sched_wakeup_template e;

	memcpy(e.comm, p->comm, TASK_COMM_LEN);
	e.pid = p->pid;
	e.prio = p->prio;
	e.target_cpu = task_cpu(p);
	trace_event_commit(event, &e,
			   offsetof(struct trace_event_raw_sched_wakeup_template, target_cpu) + 4);
	barrier();
}

#define WAKEUP_FMT "\"comm=%s pid=%d prio=%d target_cpu=%03d\", REC->comm, REC->pid, REC->prio, REC->target_cpu"
#define WAKEUP_EVENT(name) \
	DEFINE_TRACEPOINT(name, NULL, NULL); \
	DEFINE_TRACE_EVENT(sched, name, name, WAKEUP_FMT); \
	notrace void __traceiter_##name(struct task_struct *p) \
	{ \
		CALL_TRACE_PROBES(name, struct task_struct *, p); \
		if (trace_event_##name) \
			trace_event_raw_event_sched_wakeup_template(trace_event_##name, p); \
	}
WAKEUP_EVENT(sched_waking)
WAKEUP_EVENT(sched_wakeup)
WAKEUP_EVENT(sched_wakeup_new)

DEFINE_TRACEPOINT(sched_process_fork, NULL, NULL);
#define SCHED_PROCESS_FORK_FIELDS(f) \
	f(sched_process_fork, char, parent_comm, [16]) \
	f(sched_process_fork, pid_t, parent_pid, ) \
	f(sched_process_fork, char, child_comm, [16]) \
	f(sched_process_fork, pid_t, child_pid, )
TRACE_EVENT_FIELDS(sched_process_fork, SCHED_PROCESS_FORK_FIELDS);
DEFINE_TRACE_EVENT(sched, sched_process_fork, sched_process_fork,
		   "\"comm=%s pid=%d child_comm=%s child_pid=%d\", "
		   "REC->parent_comm, REC->parent_pid, REC->child_comm, REC->child_pid");

static noinline notrace void trace_event_raw_event_sched_process_fork(struct task_struct *parent,
								      struct task_struct *child)
{
	struct trace_event_raw_sched_process_fork e;

	memcpy(e.parent_comm, parent->comm, TASK_COMM_LEN);
	e.parent_pid = parent->pid;
	memcpy(e.child_comm, child->comm, TASK_COMM_LEN);
	e.child_pid = child->pid;
	trace_event_commit(trace_event_sched_process_fork, &e, sizeof(e));
	barrier();
}

notrace void __traceiter_sched_process_fork(struct task_struct *parent, struct task_struct *child)
{
	void (*follow)(unsigned long, unsigned long) = READ_ONCE(trace_follow_fork);

	CALL_TRACE_PROBES(sched_process_fork, PARAMS(struct task_struct *, struct task_struct *),
			  PARAMS(parent, child));
	if (follow)
		follow(parent->pid, child->pid);
	if (trace_event_sched_process_fork)
		trace_event_raw_event_sched_process_fork(parent, child);
}

DEFINE_TRACEPOINT(sched_process_exit, NULL, NULL);
#define SCHED_PROCESS_EXIT_FIELDS(f) \
	f(sched_process_exit, char, comm, [16]) \
	f(sched_process_exit, pid_t, pid, ) \
	f(sched_process_exit, int, prio, )
TRACE_EVENT_FIELDS(sched_process_exit, SCHED_PROCESS_EXIT_FIELDS);
DEFINE_TRACE_EVENT(sched, sched_process_exit, sched_process_exit,
		   "\"comm=%s pid=%d prio=%d\", REC->comm, REC->pid, REC->prio");

static noinline notrace void trace_event_raw_event_sched_process_template(struct task_struct *p)
{
	struct trace_event_raw_sched_process_exit e;

	memcpy(e.comm, p->comm, TASK_COMM_LEN);
	e.pid = p->pid;
	e.prio = p->prio;
	trace_event_commit(trace_event_sched_process_exit, &e, sizeof(e));
	barrier();
}

notrace void __traceiter_sched_process_exit(struct task_struct *p)
{
	CALL_TRACE_PROBES(sched_process_exit, struct task_struct *, p);
	if (trace_event_sched_process_exit)
		trace_event_raw_event_sched_process_template(p);
}

DEFINE_TRACEPOINT(sched_process_free, NULL, NULL);

notrace void __traceiter_sched_process_free(struct task_struct *p)
{
	void (*follow)(unsigned long, unsigned long) = READ_ONCE(trace_follow_fork);

	CALL_TRACE_PROBES(sched_process_free, struct task_struct *, p);
	if (follow)
		follow(0, p->pid);
}

/* ---- system calls */

/* The event of each call (0 if that is off), and the number of its arguments. */
struct syscall_event {
	unsigned long event, nr_args;
} enter_syscall_events[NR_syscalls], exit_syscall_events[NR_syscalls];

DEFINE_TRACEPOINT(sys_enter, NULL, NULL);
#define SYS_ENTER_FIELDS(f) \
	f(sys_enter, long, id, ) \
	f(sys_enter, unsigned long, args, [6])
TRACE_EVENT_FIELDS(sys_enter, SYS_ENTER_FIELDS);
DEFINE_TRACE_EVENT(
	raw_syscalls, sys_enter, sys_enter,
	"\"NR %ld (%lx, %lx, %lx, %lx, %lx, %lx)\", REC->id, REC->args[0], REC->args[1], REC->args[2], "
	"REC->args[3], REC->args[4], REC->args[5]");

static void syscall_get_arguments(struct pt_regs *regs, unsigned long *args)
{
	args[0] = regs->di;
	args[1] = regs->si;
	args[2] = regs->dx;
	args[3] = regs->r10;
	args[4] = regs->r8;
	args[5] = regs->r9;
}

static noinline notrace void trace_event_raw_event_sys_enter(struct pt_regs *regs, long id)
{
	struct trace_event_raw_sys_enter e;

	e.id = id;
	syscall_get_arguments(regs, e.args);
	trace_event_commit(trace_event_sys_enter, &e, sizeof(e));
	barrier();
}

struct syscall_trace {
	struct trace_entry ent;
	int nr;
	unsigned long args[6];
};

static noinline notrace void ftrace_syscall_enter(struct pt_regs *regs, long id)
{
	struct syscall_trace e;
	struct syscall_event *event = &enter_syscall_events[id];

	e.nr = id;
	syscall_get_arguments(regs, e.args);
	trace_event_commit(event->event, &e,
			   offsetof(struct syscall_trace, args) + 8 * event->nr_args);
	barrier();
}

notrace void __traceiter_sys_enter(struct pt_regs *regs, long id)
{
	CALL_TRACE_PROBES(sys_enter, PARAMS(struct pt_regs *, long), PARAMS(regs, id));
	if ((unsigned long)id >= NR_syscalls || !enter_syscall_events[id].event) {
		if (trace_event_sys_enter)
			trace_event_raw_event_sys_enter(regs, id);
	} else if (trace_event_sys_enter) {
		ftrace_syscall_enter(regs, id);
		trace_event_raw_event_sys_enter(regs, id);
		barrier();
	} else {
		ftrace_syscall_enter(regs, id);
	}
}

DEFINE_TRACEPOINT(sys_exit, NULL, NULL);
#define SYS_EXIT_FIELDS(f) f(sys_exit, long, id, ) f(sys_exit, long, ret, )
TRACE_EVENT_FIELDS(sys_exit, SYS_EXIT_FIELDS);
DEFINE_TRACE_EVENT(raw_syscalls, sys_exit, sys_exit, "\"NR %ld = %ld\", REC->id, REC->ret");

static noinline notrace void trace_event_raw_event_sys_exit(struct pt_regs *regs, long ret)
{
	struct trace_event_raw_sys_exit e;

	e.id = regs->orig_ax;
	e.ret = ret;
	trace_event_commit(trace_event_sys_exit, &e, sizeof(e));
	barrier();
}

static noinline notrace void ftrace_syscall_exit(struct pt_regs *regs, long ret)
{
	struct syscall_trace e;

	e.nr = regs->orig_ax;
	e.args[0] = ret;
	trace_event_commit(exit_syscall_events[regs->orig_ax].event, &e,
			   offsetof(struct syscall_trace, args) + 8);
	barrier();
}

notrace void __traceiter_sys_exit(struct pt_regs *regs, long ret)
{
	CALL_TRACE_PROBES(sys_exit, PARAMS(struct pt_regs *, long), PARAMS(regs, ret));
	if (regs->orig_ax >= NR_syscalls || !exit_syscall_events[regs->orig_ax].event) {
		if (trace_event_sys_exit)
			trace_event_raw_event_sys_exit(regs, ret);
	} else if (trace_event_sys_exit) {
		ftrace_syscall_exit(regs, ret);
		trace_event_raw_event_sys_exit(regs, ret);
		barrier();
	} else {
		ftrace_syscall_exit(regs, ret);
	}
}
