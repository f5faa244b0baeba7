/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The events that notifiers of register_die_notifier() are told of. */
#pragma once

struct pt_regs;
enum die_val {
	DIE_OOPS = 1,
	DIE_INT3,
	DIE_DEBUG,
	DIE_PANIC,
	DIE_NMI,
	DIE_DIE,
	DIE_KERNELDEBUG,
	DIE_TRAP,
	DIE_GPF,
	DIE_CALL,
	DIE_PAGE_FAULT,
	DIE_NMIUNKNOWN
};
enum bug_trap_type { BUG_TRAP_TYPE_NONE, BUG_TRAP_TYPE_WARN, BUG_TRAP_TYPE_BUG };
void show_regs(struct pt_regs *regs);
