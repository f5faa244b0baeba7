/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <asm/ptrace.h>

static __always_inline unsigned long native_save_fl(void)
{
	unsigned long flags;

	__asm__ __volatile__("pushf; pop %0" : "=rm"(flags) : : "memory");
	return flags;
}

#define local_irq_disable() __asm__ __volatile__("cli" ::: "memory")
#define local_irq_enable() __asm__ __volatile__("sti" ::: "memory")
#define local_save_flags(f) ((f) = native_save_fl())
#define local_irq_save(f) do { (f) = native_save_fl(); local_irq_disable(); } while (0)
#define local_irq_restore(f) do { if ((f) & X86_EFLAGS_IF) local_irq_enable(); } while (0)
#define irqs_disabled_flags(f) (!((f) & X86_EFLAGS_IF))
#define irqs_disabled() irqs_disabled_flags(native_save_fl())
