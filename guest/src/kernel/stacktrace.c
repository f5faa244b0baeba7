// SPDX-License-Identifier: GPL-2.0-or-later
/* Stack traces. The unwinder is outside the guest, with the tables that it goes by. */
#include <kpfs/control.h>
#include <linux/kernel.h>
#include <linux/stacktrace.h>

notrace noinline unsigned int stack_trace_save(unsigned long *store, unsigned int size,
					       unsigned int skipnr)
{
	struct kpfs_stack_trace args = { .store = store, .size = size, .skip = skipnr };

	return kpfs_control(CTL_STACK_TRACE, (unsigned long)&args, 0);
}

notrace noinline unsigned int stack_trace_save_regs(struct pt_regs *regs, unsigned long *store,
						    unsigned int size, unsigned int skipnr)
{
	struct kpfs_stack_trace args = { store, size, skipnr, regs };

	return kpfs_control(CTL_STACK_TRACE, (unsigned long)&args, 0);
}

void stack_trace_print(const unsigned long *entries, unsigned int nr_entries, int spaces)
{
	for (unsigned int i = 0; i < nr_entries; i++)
		printk("%*c%pS\n", 1 + spaces, ' ', (void *)entries[i]);
}
