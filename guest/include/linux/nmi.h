/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef _LINUX_NMI_H
#define _LINUX_NMI_H
#include <asm/ptrace.h>
void watchdog_soft_lockup(struct pt_regs *regs, unsigned long seconds);
#endif
