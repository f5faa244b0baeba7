// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Kill a task that does not give up its CPU. Python finds it, as the clock of the guest
 * stands still meanwhile. Unless the task is killed, no other request can be served.
 */
#include <linux/kernel.h>
#include <linux/nmi.h>
#include <linux/sched.h>

void die_for_good(const char *str, struct pt_regs *regs, long err) __noreturn;

void watchdog_soft_lockup(struct pt_regs *regs, unsigned long seconds)
{
	bust_spinlocks();
	pr_emerg("watchdog: BUG: soft lockup - CPU#%d stuck for %lus! [%s:%d]\n",
		 smp_processor_id(), seconds, current->comm, current->pid);
	die_for_good("soft lockup", regs, 0);
}
