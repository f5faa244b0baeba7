// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Records that do not simply go into the first trace array's ring: events of several
 * arrays or with triggers, events of the kernel's own trace points, function tracing.
 */
#include "fetch.h"
#include "ring.h"
#include "trace.h"
#include "trace_entry.h"

#define TRACE_FN 1 /* Kernel: enum trace_type */
#define TRACE_STACK 4
#define KP_EINVAL 22

struct kp_array *kp_fn_arrays;       /* that have a function tracer, linked by fn_next */
struct kp_array *kp_fn_probe_arrays; /* that have commands at functions, by fn_probe_next */
u64 kp_fn_hits[8];                   /* struct kp_fn_table * of each CPU; 0: no profiler is on */

static int hashed(u64 hash, u64 key)
{
	const struct kp_hash *h = (const struct kp_hash *)hash;
	u64 i = KP_HASH(key) & h->mask;

	for (; h->key[i]; i = (i + 1) & h->mask)
		if (h->key[i] == key)
			return 1;
	return 0;
}

/* Kernel: trace_ignore_this_task() */
static int pid_ignored(u64 pids, u64 no_pids, u32 pid)
{
	return (pids && !hashed(pids, pid + 1UL)) || (no_pids && hashed(no_pids, pid + 1UL));
}

static u64 eflags(void)
{
	u64 v;

	asm volatile("pushfq; popq %0" : "=r"(v));
	return v;
}

/* Write a stack trace, with the head of the record it belongs to. Kernel: ftrace_trace_stack() */
static void trace_stack(struct kp_ring *r, u64 head, const struct kp_start *start, u64 skip)
{
	u64 n = kp_ask(HC_STACK, start->ip, start->sp, start->bp, skip);
	u64 *record = kp_ring_place(r, 16 + 8 * n), i;
	const u64 *stack = (const u64 *)kp_this_cpu()->stack;

	if (!record)
		return;
	kp_save_cmdline(kp_current(), head >> 32);
	record[0] = (head & ~0xffffUL) | TRACE_STACK;
	record[1] = n;
	for (i = 0; i < n; i++)
		record[2 + i] = stack[i];
}

static void trigger(struct kp_file *f, struct kp_trigger *t, const u8 *record,
		    const struct kp_start *start)
{
	u64 stack = kp_ask(HC_TRIGGER, t->id);
	struct kp_ring *r = (struct kp_ring *)((struct kp_array *)f->array)->ring[kp_gs32(gs_cpu)];

	if (stack && r->on)
		trace_stack(r, *(const u64 *)record, start, 0);
}

/*
 * Obey the triggers of the wanted kind; return true if there are some of the other kind. Kernel:
 * event_triggers_call()
 */
static int call_triggers(struct kp_file *f, const u8 *record, u64 post,
			 const struct kp_start *start)
{
	struct kp_trigger *t;
	int others = 0;

	for (t = (struct kp_trigger *)f->triggers; t; t = (struct kp_trigger *)t->next) {
		if (record && t->filter &&
		    !kp_filter_match((const struct kp_pred *)t->filter, record))
			continue;
		if ((t->flags & TRIGGER_POST) == post)
			trigger(f, t, record, start);
		else
			others = 1;
	}
	return others;
}

/*
 * Write a record into one array; triggers that look at no record have been obeyed. Kernel:
 * trace_event_buffer_commit()
 */
static void commit_file(struct kp_file *f, u32 *record, u64 size, const struct kp_start *start,
			const struct kp_start *here)
{
	struct kp_array *a = (struct kp_array *)f->array;
	struct kp_ring *r = (struct kp_ring *)a->ring[kp_gs32(gs_cpu)];
	/*
	 * A trigger that looks at the record comes after its place has been found, in rings
	 * that it may swap out; another one comes before.
	 */
	u64 on = !(f->flags & FILE_TRIGGER_COND) || f->filter || r->on;
	int post = 0;
	u32 *p;

	if (f->flags & FILE_TRIGGER_COND)
		post = call_triggers(f, (u8 *)record, 0, here);
	if (f->flags & FILE_RECORD && on && r->on &&
	    !(f->filter && !kp_filter_match((const struct kp_pred *)f->filter, (u8 *)record)) &&
	    !((a->pids | a->no_pids) && pid_ignored(a->pids, a->no_pids, record[1]))) {
		p = kp_ring_place(r, size);
		if (p) {
			kp_copy_record(p, record, size);
			kp_save_cmdline(kp_current(), record[1]);
			if (a->flags & ARRAY_STACKTRACE)
				trace_stack(r, *(u64 *)record, start, 0);
		}
	}
	if (post)
		call_triggers(f, (u8 *)record, TRIGGER_POST, here);
}

static void record_file(struct kp_file *f, u32 *record, u64 size, const struct kp_start *start,
			const struct kp_start *here)
{
	if (f->triggers && !(f->flags & FILE_TRIGGER_COND))
		call_triggers(f, 0, 0, here);
	commit_file(f, record, size, start, here);
}

/*
 * Write a record made aside, head and all, into every array that wants it. A stack trace that
 * belongs to the record begins at start, one that a trigger makes here.
 */
void kp_record_files(struct kp_event *e, u64 *record, u64 size, const struct kp_start *start,
		     const struct kp_start *here)
{
	struct kp_file *f;

	for (f = (struct kp_file *)e->files; f; f = (struct kp_file *)f->next)
		record_file(f, (u32 *)record, size, start, here);
}

/*
 * Write a record of size bytes whose fields, but not its head, a trace point of the kernel has
 * filled in. sp, ip and bp are the caller's. Kernel: trace_event_buffer_commit()
 */
void kp_trace_commit(struct kp_event *e, u64 *record, u64 size, u64 sp, u64 ip, u64 bp)
{
	struct kp_start start = { ip, sp, bp };
	struct kp_cpu *c = kp_this_cpu();
	u64 task = kp_current(), *p;
	u32 pid = kp_pid(task);
	u32 pc = kp_preempt_count() + 1 + !!(e->flags & EVENT_SYSCALL);

	record[0] = ENTRY_HEAD(e->type, kp_context(pc, eflags()), pid);
	if (e->files) {
		kp_record_files(e, record, size, &start, &start);
		return;
	}
	if (!(e->flags & EVENT_RECORD) ||
	    (e->filter && !kp_filter_match((const struct kp_pred *)e->filter, (u8 *)record)))
		return;
	p = kp_ring_place((struct kp_ring *)c->ring, size);
	if (!p)
		return;
	kp_copy_record((u32 *)p, (u32 *)record, size);
	kp_save_cmdline(task, pid);
}

/* ---- events whose records the kernel makes for one array, at its will */

/*
 * Tell the kernel if it shall make a record of size bytes: 1 if so, 0 if none is wanted, -EINVAL
 * if there is no place for it. If there is a filter, or a trigger that looks at the record, it is
 * made aside. Kernel: __synth_event_trace_init(), __synth_event_trace_start()
 */
long kp_file_begin(struct kp_file *f, u64 size)
{
	static const struct kp_start nowhere;
	struct kp_array *a = (struct kp_array *)f->array;
	u32 pid = kp_pid(kp_current());
	int ignored = (a->pids | a->no_pids) && pid_ignored(a->pids, a->no_pids, pid);
	int aside = f->flags & FILE_TRIGGER_COND || f->filter;

	if (f->flags & FILE_TRIGGER_COND) {
		if (ignored)
			return -KP_EINVAL;
	} else {
		if (f->triggers)
			call_triggers(f, 0, 0, &nowhere);
		if (!(f->flags & FILE_RECORD) || ignored)
			return 0;
	}
	if ((size + 3) / 4 * 4 + 8 > KP_PAGE_DATA)
		return -KP_EINVAL;
	return aside || ((struct kp_ring *)a->ring[kp_gs32(gs_cpu)])->on ? 1 : -KP_EINVAL;
}

/*
 * Write that record, whose fields and type the kernel has filled in. It has disabled preemption
 * once more than its caller knows.
 */
void kp_file_commit(struct kp_file *f, u64 *record, u64 size, u64 sp, u64 ip, u64 bp)
{
	struct kp_start start = { ip, sp, bp };
	u32 pid = kp_pid(kp_current());

	record[0] = ENTRY_HEAD(record[0], kp_context(kp_preempt_count(), eflags()), pid);
	commit_file(f, (u32 *)record, size, &start, &start);
}

/* ---- tasks that come and go */

/* Follow a fork to task, or, if self is 0, its end. Kernel: trace_filter_add_remove_task() */
void kp_follow_fork(u64 self, u64 task)
{
	kp_ask(HC_FOLLOW_FORK, self, task);
}

/* ---- functions */

/* Counts of the calls of functions, in a table of the size of a kp_hash's keys. */
struct kp_fn_table {
	u64 mask;
	struct { u64 ip, hits; } fn[];
};

static void profile(struct kp_fn_table *t, u64 ip)
{
	u64 i = KP_HASH(ip) & t->mask;

	for (; t->fn[i].ip; i = (i + 1) & t->mask)
		if (t->fn[i].ip == ip) {
			t->fn[i].hits++;
			return;
		}
}

/* Obey the commands of the function that begins at ip. Kernel: function_trace_probe_call() */
static __attribute__((noinline)) void function_probe(struct kp_array *a, u64 ip, u32 pid)
{
	u64 stack = kp_ask(HC_FN_PROBE, ip, (u64)a);
	struct kp_ring *r = (struct kp_ring *)a->ring[kp_gs32(gs_cpu)];
	struct kp_start here;

	if (!stack || !r->on)
		return;
	KP_HERE(here);
	trace_stack(r, ENTRY_HEAD(0, kp_context(kp_preempt_count() + 1, eflags()), pid), &here, 2);
}

/* Trace the function that begins at ip. Kernel: function_trace_call() */
void kp_function_trace(u64 ip, u64 parent)
{
	u64 task = kp_current(), cpu = kp_gs32(gs_cpu);
	u32 pid = kp_pid(task);
	struct kp_array *a;
	u64 *p;

	for (a = kp_fn_probe_arrays; a; a = (struct kp_array *)a->fn_probe_next)
		if (a->fn_probes && hashed(a->fn_probes, ip))
			function_probe(a, ip, pid);
	if (kp_fn_hits[cpu])
		profile((struct kp_fn_table *)kp_fn_hits[cpu], ip);
	for (a = kp_fn_arrays; a; a = (struct kp_array *)a->fn_next) {
		if (a->fn_hash && !hashed(a->fn_hash, ip))
			continue;
		if ((a->fn_pids | a->fn_no_pids) && pid_ignored(a->fn_pids, a->fn_no_pids, pid))
			continue;
		if (!((struct kp_ring *)a->ring[cpu])->on)
			continue;
		p = kp_ring_place((struct kp_ring *)a->ring[cpu], 24);
		if (!p)
			continue;
		p[0] = ENTRY_HEAD(TRACE_FN, kp_context(kp_preempt_count() + 1, eflags()), pid);
		p[1] = ip;
		p[2] = parent;
		kp_save_cmdline(task, pid);
		if (a->flags & ARRAY_FUNC_STACKTRACE) {
			struct kp_start here;

			KP_HERE(here);
			trace_stack((struct kp_ring *)a->ring[cpu], p[0], &here, 1);
		}
	}
}

/* Trace a function on which a probe stands, too. Stack traces show this name, as on Linux. */
void arch_ftrace_ops_list_func(u64 ip, u64 parent)
{
	kp_preempt_add(1);
	kp_function_trace(ip, parent);
	kp_preempt_add(-1);
}
