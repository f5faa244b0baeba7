/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <asm/ptrace.h>
void irqentry_enter(struct pt_regs *regs);
void irqentry_exit(struct pt_regs *regs);
void irqentry_nmi_enter(struct pt_regs *regs);
void irqentry_nmi_exit(struct pt_regs *regs);
void preempt_schedule_irq(void);
#include <kpfs/cleanup.h>
DEFINE_GUARD(irqentry, struct pt_regs, irqentry_enter(it), irqentry_exit(it))
