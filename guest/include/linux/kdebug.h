/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <asm/kdebug.h>
#include <linux/notifier.h>

struct die_args {
	struct pt_regs *regs;
	const char *str;
	long err;
	int trapnr, signr;
};
int register_die_notifier(struct notifier_block *nb);
int unregister_die_notifier(struct notifier_block *nb);
int notify_die(enum die_val val, const char *str, struct pt_regs *regs, long err, int trap,
	       int sig);
