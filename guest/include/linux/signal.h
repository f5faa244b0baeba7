/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/sched.h>
void arch_do_signal_or_restart(struct pt_regs *regs);
void __noreturn make_task_dead(int signr);
