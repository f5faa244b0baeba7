// SPDX-License-Identifier: GPL-2.0-or-later
/* Interrupts. */
#include <linux/entry.h>
#include <linux/host.h>
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/rescue.h>

struct irqaction {
	irq_handler_t handler;
	void *dev_id;
	const char *name;
};
#define NR_IRQS 16
static struct irqaction irq_desc[NR_IRQS];
static DEFINE_PER_CPU(unsigned long, irq_count);

int request_irq(unsigned int irq, irq_handler_t handler, unsigned long flags, const char *name,
		void *dev)
{
	if (irq >= NR_IRQS || irq_desc[irq].handler)
		return irq >= NR_IRQS ? -EINVAL : -EBUSY;
	irq_desc[irq].dev_id = dev;
	irq_desc[irq].name = name;
	WRITE_ONCE(irq_desc[irq].handler, handler);
	return 0;
}

const void *free_irq(unsigned int irq, void *dev)
{
	irq_desc[irq].handler = NULL;
	return irq_desc[irq].name;
}

noinline irqreturn_t __handle_irq_event_percpu(struct irqaction *action, int irq)
{
	irqreturn_t ret = IRQ_NONE;

	if (!action->handler)
		return ret;
	call_rescued(this_cpu_ptr(&irq_rescue), ret = action->handler(irq, action->dev_id));
	return ret;
}

static void handle_edge_irq(struct irqaction *desc, int irq)
{
	if (__handle_irq_event_percpu(desc, irq) == IRQ_NONE)
		pr_warn("irq %d: nobody cared\n", irq);
}

static noinline void __common_interrupt(struct pt_regs *regs, u32 vector)
{
	__this_cpu_inc(irq_count);
	handle_edge_irq(&irq_desc[vector & (NR_IRQS - 1)], vector & (NR_IRQS - 1));
}

__visible noinstr void common_interrupt(struct pt_regs *regs, u32 vector)
{
	guard(irqentry)(regs);
	guard(hardirq)();
	__common_interrupt(regs, vector);
}

static noinline void local_apic_timer_interrupt(void)
{
	__this_cpu_inc(irq_count);
	hrtimer_interrupt();
}

static noinline void __sysvec_apic_timer_interrupt(struct pt_regs *regs)
{
	local_apic_timer_interrupt();
}

__visible noinstr void sysvec_apic_timer_interrupt(struct pt_regs *regs)
{
	guard(irqentry)(regs);
	guard(hardirq)();
	__sysvec_apic_timer_interrupt(regs);
}

static noinline void scheduler_ipi(void)
{
	kpfs_wake_requested();
}

__visible noinstr void sysvec_reschedule_ipi(struct pt_regs *regs)
{
	guard(irqentry)(regs);
	guard(hardirq)();
	scheduler_ipi();
}
