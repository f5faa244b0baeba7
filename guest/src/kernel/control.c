// SPDX-License-Identifier: GPL-2.0-or-later
/* Questions to Python, which answers them while the guest stands still. */
#include <kpfs/control.h>
#include <kpfs/hypercall.h>
#include <linux/kprobes.h>
#include <linux/preempt.h>

/* Ask Python. The words belong to this CPU, so no other task may run on it in between. */
notrace noinline long kpfs_control(unsigned long nr, unsigned long a, unsigned long b)
{
	struct kpfs_pcpu *pcpu;
	unsigned long flags = native_save_fl();

	guard(irqs)();
	pcpu = this_cpu_ptr(&pcpu_hot);
	WRITE_ONCE(pcpu->api[0], nr);
	WRITE_ONCE(pcpu->api[1], a);
	WRITE_ONCE(pcpu->api[2], b);
	WRITE_ONCE(pcpu->api[API_FLAGS], flags);
	hypercall(HC_API, pcpu->cpu_number);
	return READ_ONCE(pcpu->api[0]);
}
NOKPROBE_SYMBOL(kpfs_control);
