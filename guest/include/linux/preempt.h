/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <asm/irqflags.h>
#include <kpfs/hypercall.h>
#include <linux/percpu.h>

#define PREEMPT_MASK 0xff
#define SOFTIRQ_MASK 0xff00
#define HARDIRQ_MASK 0xf0000
#define NMI_MASK 0xf00000
#define PREEMPT_OFFSET 1
#define SOFTIRQ_OFFSET 0x100
#define SOFTIRQ_DISABLE_OFFSET 0x200
#define HARDIRQ_OFFSET 0x10000
#define NMI_OFFSET 0x100000

#define hardirq_count() (preempt_count() & HARDIRQ_MASK)
#define softirq_count() (preempt_count() & SOFTIRQ_MASK)
#define in_irq() hardirq_count()
#define in_hardirq() hardirq_count()
#define in_softirq() softirq_count()
#define in_serving_softirq() (softirq_count() & SOFTIRQ_OFFSET)
#define in_nmi() (preempt_count() & NMI_MASK)
#define in_interrupt() (preempt_count() & (NMI_MASK | HARDIRQ_MASK | SOFTIRQ_MASK))
#define in_task() (!in_nmi() && !in_hardirq() && !in_serving_softirq())
#define in_atomic() (preempt_count() != 0)
#define preemptible() (preempt_count() == 0 && !irqs_disabled())
#define preempt_count_add(n) __preempt_count_add(n)
#define preempt_count_sub(n) __preempt_count_sub(n)

void preempt_schedule(void);

static __always_inline void set_preempt_count(int n)
{
	__asm__ __volatile__("movl %0, %%gs:0x14" : : "ri"(n) : "memory");
}

/* A dying task leaves all that it held. */
static __always_inline void set_preempt_count_zero(void) { set_preempt_count(0); }

static __always_inline void preempt_disable(void)
{
	__preempt_count_add(1);
	barrier();
}

static __always_inline void preempt_enable_no_resched(void)
{
	barrier();
	__preempt_count_sub(1);
}

static __always_inline void preempt_enable(void)
{
	bool zero;

	__asm__ __volatile__("decl %%gs:0x14" : "=@ccz"(zero) : : "memory");
	if (!zero)
		return;
	poll_credit(); /* a tick may be due, or another CPU's turn */
	if (unlikely(tif_need_resched()))
		preempt_schedule();
}

#ifndef MODULE
#include <kpfs/cleanup.h>
static __always_inline unsigned long __guard_irqs(void)
{
	unsigned long flags;

	local_irq_save(flags);
	return flags;
}
static __always_inline void __unguard_irqs(unsigned long *flags) { local_irq_restore(*flags); }
static __always_inline int __guard_preempt(void)
{
	preempt_disable();
	return 0;
}
static __always_inline void __unguard_preempt(int *unused) { preempt_enable(); }
#endif

#define preempt_disable_notrace() preempt_disable()
#define preempt_enable_notrace() preempt_enable_no_resched()
#define get_cpu() ({ preempt_disable(); smp_processor_id(); })
#define put_cpu() preempt_enable()
#define get_cpu_ptr(p) ({ preempt_disable(); this_cpu_ptr(p); })
#define put_cpu_ptr(p) preempt_enable()
#define get_cpu_var(v) (*get_cpu_ptr(&(v)))
#define put_cpu_var(v) preempt_enable()
