// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The common hits, without a struct pt_regs: a site whose one handler is that of an event
 * with nothing to fetch or filter, or that of a return probe. Each function returns where
 * to go on, or 0 for the long way. No handler of others runs and nothing faults, so
 * current_kprobe and the preempt count stay as they are.
 *
 * In an emulator a branch costs as much as several instructions: what decides against the
 * short way is or-ed together and tested once.
 */
#include "record.h"

#define INLINE static inline __attribute__((always_inline))

INLINE u64 go_on(struct kp_cpu *c, struct kp_site *site, u64 kind)
{
	if (kind == KP_INT3 && site->flags & SITE_SINGLESTEP) {
		c->current_kprobe = (u64)site;
		c->status = KP_HIT_SS;
	}
	return site->cont;
}

/*
 * The place for the fields of a record of size bytes, head written, where that is simple:
 * it fits on a page that has some already, soon after the one before, in task context.
 * 0 if it is not, or if bad.
 */
INLINE u64 *lite_record(struct kp_cpu *c, struct kp_event *e, u64 size, u64 kind, u64 eflags, u64 bad)
{
	struct kp_ring *r = (struct kp_ring *)c->ring;
	u64 need = size + 4, tail, commit, ts, delta, task;
	struct kp_page *page;
	u32 ctx, pid;
	u8 *p;

	ctx = kp_preempt_count();
	bad |= ctx & (NMI_MASK | HARDIRQ_MASK | SOFTIRQ_MASK | 0xf8);
	bad |= kp_gs32(gs_resched);
	bad |= e->size ^ size;
	bad |= e->filter;
	bad |= ~e->flags & EVENT_RECORD;
	bad |= r->on ^ 1;
	if (bad)
		return 0;
	tail = r->tail;
	page = (struct kp_page *)r->pages + tail;
	commit = page->commit;
	ts = *(u64 *)kp_const64(clock) + kp_const32(clock_step);
	delta = ts - r->last_ts;
	if (delta >> DELTA_BITS | (commit - 1 >= KP_PAGE_DATA - need))
		return 0;
	*(u64 *)kp_const64(clock) = ts;
	page->commit = commit + need;
	kp_commit(r, tail, need, ts);
	p = page->data + commit;
	*(u32 *)p = (u32)delta << 5 | size / 4;
	e->nhit++;
	/* see kp_context() */
	if (kind == KP_INT3)
		ctx = ((TRACE_FLAG_NMI | TRACE_FLAG_HARDIRQ | TRACE_FLAG_IRQS_OFF) << 16 | ctx) - 1;
	else
		ctx |= (~eflags & FLAGS_IF) << (16 - 9);
	task = kp_current();
	pid = *(u32 *)(task + kp_const32(task_pid));
	*(u64 *)(p + 4) = ENTRY_HEAD(e->type, ctx, pid);
	kp_save_cmdline(task, pid);
	return (u64 *)(p + 12);
}

INLINE u64 lite_event(struct kp_site *site, u64 eflags, u64 kind)
{
	struct kp_cpu *c = kp_this_cpu();
	u64 *field = lite_record(c, (struct kp_event *)site->lite, 16, kind, eflags, c->current_kprobe);

	if (!field)
		return 0;
	*field = site->addr;
	site->hits++;
	return go_on(c, site, kind);
}

u64 kp_lite_event(struct kp_site *site, u64 eflags)
{
	return lite_event(site, eflags, KP_FTRACE);
}

u64 kp_lite_event_int3(struct kp_site *site, u64 eflags)
{
	return lite_event(site, eflags, KP_INT3);
}

/* sp: the stack as the probed instruction finds it */
INLINE u64 lite_kret(struct kp_site *site, u64 *sp, u64 kind)
{
	struct kp_cpu *c = kp_this_cpu();
	struct kp_rethook *rh = (struct kp_rethook *)site->lite;
	struct kp_rethook_node *node = (struct kp_rethook_node *)rh->free;
	u64 task, *list;

	if (c->current_kprobe | rh->flags | rh->entry_fn | !node)
		return 0;
	site->hits++;
	rh->free = node->next;
	rh->inuse++;
	rh->site = (u64)site;
	task = kp_current();
	node->task = task;
	node->func = site->addr;
	node->frame = (u64)sp;
	node->ret_addr = *sp;
	*sp = (u64)kp_ret_trampoline;
	list = kp_task_rethooks(task);
	node->next = *list;
	*list = (u64)node;
	return go_on(c, site, kind);
}

u64 kp_lite_kret(struct kp_site *site, u64 eflags, u64 *sp)
{
	return lite_kret(site, sp, KP_FTRACE);
}

u64 kp_lite_kret_int3(struct kp_site *site, u64 eflags, u64 *sp)
{
	return lite_kret(site, sp, KP_INT3);
}

/* sp: where the return address was */
u64 kp_lite_return(u64 sp, u64 eflags)
{
	u64 *list = kp_task_rethooks(kp_current()), *field, ret, bad;
	struct kp_rethook_node *node = (struct kp_rethook_node *)*list;
	struct kp_rethook *rh;

	if (!node)
		return 0;
	ret = node->ret_addr;
	rh = (struct kp_rethook *)node->rethook;
	bad = node->frame ^ sp;
	bad |= ret == (u64)kp_ret_trampoline;
	bad |= rh->flags;
	bad |= rh->ret_fn ^ (u64)kp_event_return;
	if (bad)
		return 0;
	field = lite_record(kp_this_cpu(), (struct kp_event *)rh->data, 24, KP_FTRACE, eflags, 0);
	if (!field)
		return 0;
	field[0] = node->func;
	field[1] = ret;
	*list = node->next;
	node->next = rh->free;
	rh->free = (u64)node;
	rh->inuse--;
	return ret;
}
