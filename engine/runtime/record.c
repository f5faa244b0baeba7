// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The handlers of kprobe events. A plain record is written here; arguments and filters are
 * fetch.c's, several trace arrays trace.c's, and the place in the ring is ring.c's. Calls go
 * from this file to those and never back.
 */
#include "fetch.h"
#include "ring.h"
#include "trace.h"
#include "trace_entry.h"

/*
 * Begin a plain record and fill in its head. Return where its fields go, or 0 if no record is to
 * be written.
 */
static void *record_begin(struct kp_event *e, struct pt_regs *regs)
{
	u64 *head, task;
	u32 pid;

	if (!(e->flags & EVENT_RECORD))
		return 0;
	head = kp_ring_place((struct kp_ring *)kp_this_cpu()->ring, e->size);
	if (!head)
		return 0;
	task = kp_current();
	pid = kp_pid(task);
	*head = ENTRY_HEAD(e->type, kp_context(kp_preempt_count(), regs->flags), pid);
	kp_save_cmdline(task, pid);
	return head + 1;
}

/* Fill in the head and the fixed fields of a record; kp_store_args() does the rest. */
static void fill(struct kp_event *e, struct pt_regs *regs, u64 *record, u64 first, u64 second)
{
	u64 task = kp_current();
	u32 pid = kp_pid(task);

	record[0] = ENTRY_HEAD(e->type, kp_context(kp_preempt_count(), regs->flags), pid);
	record[1] = first;
	if (e->flags & EVENT_RETURN)
		record[2] = second;
}

/*
 * Write the record of an event with arguments or a filter. If there is a filter, the record is
 * made aside first, so that one that is not wanted takes no place in the ring.
 */
static inline __attribute__((always_inline)) void
event_record(struct kp_event *e, struct pt_regs *regs, u64 first, u64 second)
{
	const struct kp_prog *p = (const struct kp_prog *)e->prog;
	struct kp_ring *r = (struct kp_ring *)kp_this_cpu()->ring;
	u64 room, size, *record;

	if (e->files ? 0 : !(e->flags & EVENT_RECORD) || !r->on)
		return;
	room = p ? kp_dynamic_size(p, regs) : 0;
	size = e->size + room;
	if (size > KP_PAGE_DATA)
		return;
	record = e->filter | e->files ? (u64 *)r->scratch : kp_ring_place(r, size);
	if (!record)
		return;
	fill(e, regs, record, first, second);
	if (p)
		kp_store_args(p, regs, (u8 *)record, room);
	if (e->files) {
		struct kp_start start = { regs->ip - !(e->flags & EVENT_RETURN), regs->sp,
					  regs->bp },
				here;

		KP_HERE(here);
		kp_record_files(e, record, size, &start, &here);
		return;
	}
	if (e->filter) {
		if (!kp_filter_match((const struct kp_pred *)e->filter, (u8 *)record))
			return;
		record = kp_ring_place(r, size);
		if (!record)
			return;
		kp_copy_record((u32 *)record, (u32 *)r->scratch, size);
	}
	kp_save_cmdline(kp_current(), *(u32 *)((u8 *)record + 4));
}

/* These two are functions of their own because stack traces show their names. */
__attribute__((noinline)) void kprobe_trace_func(struct kp_event *e, struct pt_regs *regs)
{
	event_record(e, regs, regs->ip - 1, 0);
}

__attribute__((noinline)) void
kretprobe_trace_func(struct kp_event *e, struct kp_rethook_node *node, struct pt_regs *regs)
{
	event_record(e, regs, node->func, node->ret_addr);
}

/* Handle the entry of a kprobe event, under the name that stack traces show on Linux. */
int kp_event_handler(struct kp_handler *h, struct pt_regs *regs)
	__attribute__((alias("kprobe_dispatcher")));
int kprobe_dispatcher(struct kp_handler *h, struct pt_regs *regs)
{
	struct kp_event *e = (struct kp_event *)h->data;
	u64 *field;

	e->nhit++;
	if (e->prog | e->filter | e->files) {
		kprobe_trace_func(e, regs);
		return 0;
	}
	field = record_begin(e, regs);
	if (field)
		field[0] = regs->ip - 1;
	return 0;
}

/* Handle the return of a return probe's event, likewise. */
int kp_event_return(struct kp_rethook_node *node, struct pt_regs *regs)
	__attribute__((alias("kretprobe_dispatcher")));
int kretprobe_dispatcher(struct kp_rethook_node *node, struct pt_regs *regs)
{
	struct kp_event *e = (struct kp_event *)((struct kp_rethook *)node->rethook)->data;
	u64 *field;

	e->nhit++;
	if (e->prog | e->filter | e->files) {
		kretprobe_trace_func(e, node, regs);
		return 0;
	}
	field = record_begin(e, regs);
	if (field) {
		field[0] = node->func;
		field[1] = node->ret_addr;
	}
	return 0;
}
