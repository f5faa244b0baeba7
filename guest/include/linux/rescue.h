/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Calls of what the kernel can do without, such as a timer's function: what does not come
 * back from one is given up, and the caller goes on. Linux has nothing of the kind: there
 * the CPU is lost.
 */
#pragma once
#include <linux/percpu.h>
#include <asm/irqflags.h>

struct rescue {
	void *buf[5];
	struct rescue *prev;
	struct task_struct *task;
	int preempt_count;
	bool irqs_off;
};

/* The innermost rescue of the interrupts that a CPU is in the middle of. */
DECLARE_PER_CPU(struct rescue *, irq_rescue);

/* Make the call, with its innermost rescue at *where. */
#define call_rescued(where, call)                                                  \
	do {                                                                       \
		struct rescue rescue_ = { .prev = *(where),                        \
					  .task = current,                         \
					  .preempt_count = preempt_count(),        \
					  .irqs_off = irqs_disabled() };           \
		if (!__builtin_setjmp(rescue_.buf)) {                              \
			*(where) = &rescue_;                                       \
			call;                                                      \
		}                                                                  \
		*(where) = rescue_.prev;                                           \
	} while (0)

void give_up_call(void);
