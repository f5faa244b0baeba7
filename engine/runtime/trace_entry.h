/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The head of each record, and the name of its task; inline, as each memory access counts
 * there. Kernel: struct trace_entry
 */
#pragma once
#include "runtime.h"

/* struct trace_entry.flags. Kernel: enum trace_flag_type */
#define TRACE_FLAG_IRQS_OFF 0x01
#define TRACE_FLAG_NEED_RESCHED 0x04
#define TRACE_FLAG_HARDIRQ 0x08
#define TRACE_FLAG_SOFTIRQ 0x10
#define TRACE_FLAG_PREEMPT_RESCHED 0x20
#define TRACE_FLAG_NMI 0x40
#define TRACE_FLAG_BH_OFF 0x80

/* Preempt count. */
#define PREEMPT_MASK 0xff
#define SOFTIRQ_OFFSET 0x100
#define SOFTIRQ_MASK 0xff00
#define HARDIRQ_MASK 0xf0000
#define NMI_MASK 0xf00000

/* The head of every record, which is written as one word: type, flags, preempt count, pid. */
#define ENTRY_HEAD(type, ctx, pid) \
	((u64)(pid) << 32 | ((u64)(ctx) & 0xff) << 24 | ((u64)(ctx) & 0xff0000) | (u64)(u16)(type))

/* Kernel: tracing_record_cmdline() */
static inline void kp_save_cmdline(u64 task, u32 pid)
{
	struct kp_cmdline *l =
		(struct kp_cmdline *)kp_top(cmdlines) + (pid & kp_const32(cmdline_mask));
	u64 *comm = (u64 *)(task + kp_const32(task_comm));

	l->pid = pid;
	l->comm[0] = comm[0];
	l->comm[1] = comm[1];
}

static inline u32 kp_pid(u64 task)
{
	return *(u32 *)(task + kp_const32(task_pid));
}

/* Copy a record of size bytes, word by word. */
static inline void kp_copy_record(u32 *to, const u32 *from, u64 size)
{
	for (u64 i = 0; i < (size + 3) / 4; i++)
		to[i] = from[i];
}

static inline u32 kp_preempt_count(void)
{
	return kp_gs32(gs_preempt);
}

/*
 * Flags << 16 | preempt count, as Linux with CONFIG_PREEMPTION works it out from pc, the count
 * inside the handler: one is taken off for the tracer's own preempt_disable(). In a breakpoint
 * trap there was none, so that a count of 0 becomes ff and the borrow clears the flag of
 * disabled interrupts. Kernel: tracing_gen_ctx_dec()
 */
static inline u32 kp_context(u32 pc, u64 eflags)
{
	u32 flags = 0, count = pc & PREEMPT_MASK;

	if (pc & NMI_MASK || !(eflags & FLAGS_IF))
		flags |= TRACE_FLAG_IRQS_OFF;
	if (pc & (NMI_MASK | HARDIRQ_MASK | SOFTIRQ_MASK)) {
		if (pc & NMI_MASK)
			flags |= TRACE_FLAG_NMI;
		if (pc & HARDIRQ_MASK)
			flags |= TRACE_FLAG_HARDIRQ;
		if (pc & SOFTIRQ_OFFSET)
			flags |= TRACE_FLAG_SOFTIRQ;
		if ((pc & SOFTIRQ_MASK) >> 9)
			flags |= TRACE_FLAG_BH_OFF;
	}
	if (kp_config.gs_resched != ~0U && kp_gs32(gs_resched))
		flags |= TRACE_FLAG_NEED_RESCHED | TRACE_FLAG_PREEMPT_RESCHED;
	return (flags << 16 | (count > 15 ? 15 : count)) - 1;
}
