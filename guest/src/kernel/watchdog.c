// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A task that does not give up its CPU. The machine beneath finds it, as it alone has a
 * clock that goes on meanwhile, and the task is killed: nobody could be served otherwise.
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
