/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef _LINUX_ENTRY_H
#define _LINUX_ENTRY_H
#include <asm/ptrace.h>
void irqentry_enter(struct pt_regs *regs);
void irqentry_exit(struct pt_regs *regs);
void preempt_schedule_irq(void);
#endif
