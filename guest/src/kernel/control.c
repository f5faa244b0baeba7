// SPDX-License-Identifier: GPL-2.0-or-later
/* Asking Python for what only it can do, while the guest stands still. */
#include <kpfs/control.h>
#include <kpfs/hypercall.h>
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/preempt.h>

/* The words belong to this CPU, so no other task may run on it in between. */
notrace noinline long kpfs_control(unsigned long nr, unsigned long a, unsigned long b)
{
	struct kpfs_pcpu *pcpu;
	unsigned long flags;
	long ret;

	local_irq_save(flags);
	pcpu = this_cpu_ptr(&pcpu_hot);
	WRITE_ONCE(pcpu->api[0], nr);
	WRITE_ONCE(pcpu->api[1], a);
	WRITE_ONCE(pcpu->api[2], b);
	hypercall(HC_API, pcpu->cpu_number);
	ret = READ_ONCE(pcpu->api[0]);
	local_irq_restore(flags);
	return ret;
}
NOKPROBE_SYMBOL(kpfs_control);
