/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <asm/ptrace.h>
#include <linux/tracepoint.h>

DECLARE_TRACE(sys_enter, TP_PROTO(struct pt_regs *regs, long id), TP_ARGS(regs, id))
DECLARE_TRACE(sys_exit, TP_PROTO(struct pt_regs *regs, long ret), TP_ARGS(regs, ret))
