// SPDX-License-Identifier: GPL-2.0-or-later
/* Into and out of the kernel, from a system call or an interrupt. */
#include <kpfs/hypercall.h>
#include <linux/entry.h>
#include <linux/host.h>
#include <linux/signal.h>
#include <linux/syscalls.h>
#include <linux/unistd.h>
#include <trace/events/syscalls.h>

noinstr void irqentry_enter(struct pt_regs *regs) {}

/* Reschedule if that is due; interrupts are off. */
noinline void irqentry_exit_cond_resched(void)
{
	if (!preempt_count() && need_resched() && kpfs_configured(KPFS_CONFIG_PREEMPTION))
		preempt_schedule_irq();
}

noinstr void irqentry_exit(struct pt_regs *regs)
{
	if (regs->flags & X86_EFLAGS_IF)
		irqentry_exit_cond_resched();
}

noinstr void irqentry_nmi_enter(struct pt_regs *regs)
{
	preempt_count_add(NMI_OFFSET + HARDIRQ_OFFSET);
}

noinstr void irqentry_nmi_exit(struct pt_regs *regs)
{
	preempt_count_sub(NMI_OFFSET + HARDIRQ_OFFSET);
}

static noinline unsigned long exit_to_user_mode_loop(struct pt_regs *regs)
{
	if (need_resched())
		schedule();
	if (signal_pending(current))
		arch_do_signal_or_restart(regs);
	return 0;
}

static __always_inline void exit_to_user_mode_prepare(struct pt_regs *regs)
{
	if (unlikely(need_resched() || signal_pending(current)))
		exit_to_user_mode_loop(regs);
}

static noinline long syscall_trace_enter(struct pt_regs *regs, long nr)
{
	trace_sys_enter(regs, nr);
	return nr;
}

noinstr long syscall_enter_from_user_mode(struct pt_regs *regs, long nr)
{
	poll_credit();
	if (trace_sys_enter_enabled())
		nr = syscall_trace_enter(regs, nr);
	return nr;
}

static noinline void syscall_exit_to_user_mode_prepare(struct pt_regs *regs)
{
	trace_sys_exit(regs, regs->ax);
	barrier();
}

noinstr void syscall_exit_to_user_mode(struct pt_regs *regs)
{
	if (trace_sys_exit_enabled())
		syscall_exit_to_user_mode_prepare(regs);
	exit_to_user_mode_prepare(regs);
}

static __always_inline bool do_syscall_x64(struct pt_regs *regs, int nr)
{
	struct pt_regs *outer = current->thread.regs;

	if ((unsigned int)nr >= NR_syscalls)
		return false;
	current->thread.regs = regs;
	regs->ax = sys_call_table[nr](regs);
	current->thread.regs = outer;
	return true;
}

__visible noinstr void do_syscall_64(struct pt_regs *regs, int nr)
{
	nr = syscall_enter_from_user_mode(regs, nr);
	if (!do_syscall_x64(regs, nr))
		regs->ax = __x64_sys_ni_syscall(regs);
	syscall_exit_to_user_mode(regs);
}
