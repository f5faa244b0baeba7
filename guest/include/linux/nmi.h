/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <asm/ptrace.h>
void watchdog_soft_lockup(struct pt_regs *regs, unsigned long seconds);
