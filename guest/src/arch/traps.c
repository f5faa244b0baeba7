// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Exceptions. Python's trap table comes first (kprobes, and the fix-ups of user copies);
 * what it does not want it delivers here.
 */
#include <asm/extable.h>
#include <kpfs/control.h>
#include <linux/entry.h>
#include <linux/interrupt.h>
#include <linux/host.h>
#include <linux/kdebug.h>
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/nmi.h>
#include <linux/rescue.h>
#include <linux/sched.h>

#define X86_TRAP_DE 0
#define X86_TRAP_DB 1
#define X86_TRAP_BP 3
#define X86_TRAP_UD 6
#define X86_TRAP_DF 8
#define X86_TRAP_GP 13
#define X86_TRAP_PF 14

extern struct exception_table_entry __start___ex_table[], __stop___ex_table[];
static ATOMIC_NOTIFIER_HEAD(die_chain);
static int die_counter;

static inline unsigned long ex_fixup_addr(const struct exception_table_entry *x)
{
	return (unsigned long)&x->fixup + x->fixup;
}

noinline const struct exception_table_entry *
search_extable(const struct exception_table_entry *base, size_t num, unsigned long value)
{
	for (; num; num--, base++)
		if (ex_to_insn(base) == value)
			return base;
	return NULL;
}

noinline const struct exception_table_entry *search_exception_tables(unsigned long addr)
{
	const struct exception_table_entry *e =
		search_extable(__start___ex_table, __stop___ex_table - __start___ex_table, addr);

	return e ?: search_module_extables(addr);
}

/* The saved register of a number as machine code has it. */
static __always_inline unsigned long *ex_register(struct pt_regs *regs, unsigned int number)
{
	unsigned long *const at[] = {
		&regs->ax,  &regs->cx,  &regs->dx,  &regs->bx,  &regs->sp,  &regs->bp,
		&regs->si,  &regs->di,  &regs->r8,  &regs->r9,  &regs->r10, &regs->r11,
		&regs->r12, &regs->r13, &regs->r14, &regs->r15,
	};

	return at[number];
}

noinline int fixup_exception(struct pt_regs *regs, int trapnr, unsigned long error_code,
			     unsigned long addr)
{
	const struct exception_table_entry *e = search_exception_tables(regs->ip);
	unsigned long *reg;

	if (!e)
		return 0;
	switch ((u8)e->data) {
	case EX_TYPE_DEFAULT:
	case EX_TYPE_UACCESS: break;
	case EX_TYPE_FAULT:   regs->ax = trapnr; break;
	case EX_TYPE_IMM_REG:
		reg = ex_register(regs, e->data >> EX_DATA_REG_SHIFT & 15);
		*reg = e->data >> EX_DATA_IMM_SHIFT;
		break;
	default: return 0;
	}
	regs->ip = ex_fixup_addr(e);
	return 1;
}

int register_die_notifier(struct notifier_block *nb)
{
	return atomic_notifier_chain_register(&die_chain, nb);
}

int unregister_die_notifier(struct notifier_block *nb)
{
	return atomic_notifier_chain_unregister(&die_chain, nb);
}

noinline int notify_die(enum die_val val, const char *str, struct pt_regs *regs, long err, int trap,
			int sig)
{
	struct die_args args = {
		.regs = regs, .str = str, .err = err, .trapnr = trap, .signr = sig
	};
	int ret = atomic_notifier_call_chain(&die_chain, val, &args);

	barrier(); /* in stack traces it is the caller, as on Linux */
	return ret;
}
NOKPROBE_SYMBOL(notify_die);

static struct pt_regs exec_summary_regs; /* of the first oops */

/* Kill the task on an empty stack: there may be no more room on it. */
static void __noreturn rewind_stack_and_make_dead(int signr)
{
	unsigned long top = (unsigned long)task_pt_regs(current) & ~15UL;

	__asm__ __volatile__("mov %0, %%rsp\n\txor %%ebp, %%ebp\n\tcall make_task_dead"
			     :
			     : "r"(top), "D"(signr)
			     : "memory");
	unreachable();
}

/* Taint the kernel, and end the oops in the log. */
static noinline void oops_summary(void)
{
	add_taint(TAINT_DIE, LOCKDEP_NOW_UNRELIABLE);
	oops_exit();
	__show_regs(&exec_summary_regs, KERN_DEFAULT);
}

/* Take off what the breakpoint of a handler that dies has added to the count. */
static void leave_handler(void)
{
	if (kpfs_control(CTL_OOPS, 0, 0) && in_nmi())
		preempt_count_sub(NMI_OFFSET + HARDIRQ_OFFSET);
	preempt_enable_no_resched();
}

/* Kill the task after an oops; if signr is 0, let it live on, as a notifier has said. */
static noinline void oops_end(int signr)
{
	oops_summary();
	if (!signr) {
		preempt_enable_no_resched();
		return;
	}
	leave_handler();
	if (in_interrupt())
		panic("Fatal exception in interrupt");
	if (current->rescue)
		give_up_call();
	rewind_stack_and_make_dead(signr);
}

static void __die_header(const char *str, struct pt_regs *regs, long err)
{
	if (!die_counter)
		exec_summary_regs = *regs;
	printk(KERN_DEFAULT "%s: %04lx [#%d]%s SMP NOPTI\n", str, err & 0xffff, ++die_counter,
	       kpfs_configured(KPFS_CONFIG_PREEMPTION) ? " PREEMPT" : "");
	show_regs(regs);
	print_modules();
}

/* Write an oops into the log; return true if a notifier says that the task lives on. */
static noinline int __die(const char *str, struct pt_regs *regs, long err)
{
	__die_header(str, regs, err);
	return notify_die(DIE_OOPS, str, regs, err, current->thread.trap_nr, SIGSEGV) ==
	       NOTIFY_STOP;
}

noinline void die(const char *str, struct pt_regs *regs, long err)
{
	preempt_disable();
	oops_end(__die(str, regs, err) ? 0 : SIGSEGV);
}

DEFINE_PER_CPU(struct rescue *, irq_rescue);

static bool in_handler(void)
{
	return hardirq_count() || in_serving_softirq();
}

/* Go on behind the innermost call that can be done without. Return if this is within none. */
void give_up_call(void)
{
	/* a sleep in an idle task is that of a handler, whatever the count says */
	bool irq = in_handler() || is_idle_task(current);
	struct rescue *r = irq ? this_cpu_read(irq_rescue) : current->rescue;

	if (!r || r->task != current)
		return;
	pr_info("note: what %s[%d] had called was given up\n", current->comm, current->pid);
	set_preempt_count(r->preempt_count);
	if (r->irqs_off)
		local_irq_disable();
	else
		local_irq_enable();
	__builtin_longjmp(r->buf, 1);
}

/*
 * Kill a task that cannot go on, whatever it had disabled; an interrupt is given up. No notifier
 * is asked, as it may be what does not come back.
 */
void __noreturn die_for_good(const char *str, struct pt_regs *regs, long err)
{
	preempt_disable();
	__die_header(str, regs, err);
	oops_summary();
	leave_handler();
	give_up_call();
	if (!in_handler())
		set_preempt_count_zero();
	rewind_stack_and_make_dead(SIGSEGV);
}

static noinline void show_fault_oops(struct pt_regs *regs, unsigned long error_code,
				     unsigned long address)
{
	if (address < PAGE_SIZE)
		pr_alert("BUG: kernel NULL pointer dereference, address: %016lx\n", address);
	else
		pr_alert("BUG: unable to handle page fault for address: %016lx\n", address);
	pr_alert("#PF: %s %s in kernel mode\n", "supervisor",
		 error_code & 16 ? "instruction fetch" :
		 error_code & 2  ? "write access" :
				   "read access");
	pr_alert("#PF: error_code(0x%04lx) - %s\n", error_code,
		 error_code & 1 ? "permissions violation" : "not-present page");
}

static noinline void page_fault_oops(struct pt_regs *regs, unsigned long error_code,
				     unsigned long address)
{
	int sig;

	show_fault_oops(regs, error_code, address);
	current->thread.cr2 = address;
	preempt_disable();
	sig = __die("Oops", regs, error_code) ? 0 : SIGKILL;
	printk(KERN_DEFAULT "CR2: %016lx\n", address);
	oops_end(sig);
}

static noinline void kernelmode_fixup_or_oops(struct pt_regs *regs, unsigned long error_code,
					      unsigned long address)
{
	if (fixup_exception(regs, X86_TRAP_PF, error_code, address))
		return;
	page_fault_oops(regs, error_code, address);
}

static noinline void bad_area_nosemaphore(struct pt_regs *regs, unsigned long error_code,
					  unsigned long address)
{
	kernelmode_fixup_or_oops(regs, error_code, address);
}
NOKPROBE_SYMBOL(bad_area_nosemaphore);

static noinline void do_kern_addr_fault(struct pt_regs *regs, unsigned long hw_error_code,
					unsigned long address)
{
	bad_area_nosemaphore(regs, hw_error_code, address);
}
NOKPROBE_SYMBOL(do_kern_addr_fault);

static noinline void do_user_addr_fault(struct pt_regs *regs, unsigned long error_code,
					unsigned long address)
{
	bad_area_nosemaphore(regs, error_code, address);
}
NOKPROBE_SYMBOL(do_user_addr_fault);

static __always_inline unsigned long read_cr2(void)
{
	unsigned long v;

	__asm__ __volatile__("mov %%cr2, %0" : "=r"(v));
	return v;
}

__visible noinstr void exc_page_fault(struct pt_regs *regs, unsigned long error_code)
{
	unsigned long address = read_cr2();

	irqentry_enter(regs);
	current->thread.trap_nr = X86_TRAP_PF;
	if (regs->flags & X86_EFLAGS_IF)
		local_irq_enable();
	if ((long)address < 0)
		do_kern_addr_fault(regs, error_code, address);
	else
		do_user_addr_fault(regs, error_code, address);
	local_irq_disable();
	irqentry_exit(regs);
}

static noinline void do_trap(struct pt_regs *regs, int trapnr, const char *str, long error_code)
{
	current->thread.trap_nr = trapnr;
	current->thread.error_code = error_code;
	if (fixup_exception(regs, trapnr, error_code, 0))
		return;
	die(str, regs, error_code);
}
NOKPROBE_SYMBOL(do_trap);

__visible noinstr void exc_divide_error(struct pt_regs *regs)
{
	guard(irqentry)(regs);
	do_trap(regs, X86_TRAP_DE, "divide error", 0);
}

__visible noinstr void exc_general_protection(struct pt_regs *regs, long error_code)
{
	guard(irqentry)(regs);
	if (notify_die(DIE_GPF, "general protection fault", regs, error_code, X86_TRAP_GP,
		       SIGSEGV) != NOTIFY_STOP)
		do_trap(regs, X86_TRAP_GP, "general protection fault", error_code);
}

static noinstr bool handle_bug(struct pt_regs *regs)
{
	if (report_bug(regs->ip, regs) != BUG_TRAP_TYPE_WARN)
		return false;
	regs->ip += 2;
	return true;
}

__visible noinstr void exc_invalid_op(struct pt_regs *regs)
{
	if (handle_bug(regs))
		return;
	guard(irqentry)(regs);
	if (regs->flags & X86_EFLAGS_IF)
		local_irq_enable();
	do_trap(regs, X86_TRAP_UD, "invalid opcode", 0);
	local_irq_disable();
}

/* Handle a breakpoint that kprobes did not want. */
static void __kprobes do_int3(struct pt_regs *regs)
{
	if (notify_die(DIE_INT3, "int3", regs, 0, X86_TRAP_BP, 5) == NOTIFY_STOP)
		return;
	do_trap(regs, X86_TRAP_BP, "int3", 0);
}

__visible noinstr void exc_int3(struct pt_regs *regs)
{
	guard(irqentry)(regs);
	do_int3(regs);
}

/* Ask the notifiers, which find the cause in *dr6, by way of their err, and take their bits off. */
static __always_inline bool notify_debug(struct pt_regs *regs, unsigned long *dr6)
{
	return notify_die(DIE_DEBUG, "debug", regs, (long)dr6, X86_TRAP_DB, 5) == NOTIFY_STOP;
}

static __always_inline unsigned long debug_read_clear_dr6(void)
{
	unsigned long dr6 = this_cpu_read(pcpu_hot.dr6);

	this_cpu_write(pcpu_hot.dr6, 0);
	return dr6;
}

/* Handle a debug trap. The machine has set debug_off, so that nothing is watched meanwhile. */
__visible noinstr void exc_debug(struct pt_regs *regs)
{
	unsigned long dr6 = debug_read_clear_dr6();

	irqentry_nmi_enter(regs);
	if (!notify_debug(regs, &dr6))
		regs->flags &= ~X86_EFLAGS_TF;
	irqentry_nmi_exit(regs);
	this_cpu_write(pcpu_hot.debug_off, 0);
}

/*
 * Handle an exception or interrupt for whose frame there is no room: this is entered on a stack of
 * its own, and CR2 has the address where the frame should have come to lie.
 */
__visible noinstr void exc_double_fault(struct pt_regs *regs, unsigned long error_code)
{
	unsigned long address = read_cr2(), stack = (unsigned long)task_stack_page(current);

	irqentry_enter(regs);
	bust_spinlocks();
	current->thread.trap_nr = X86_TRAP_DF;
	if (address - (stack - THREAD_SIZE) < THREAD_SIZE) {
		pr_emerg("BUG: TASK stack guard page was hit at %p (stack is %p..%p)\n",
			 (void *)address, (void *)stack, (void *)(stack + THREAD_SIZE - 1));
		die_for_good("stack guard page", regs, error_code);
	}
	pr_emerg("PANIC: double fault, error_code: 0x%lx\n", error_code);
	die_for_good("double fault", regs, error_code);
}

/* Handle a report of the machine: a CPU has not come to rest for so many seconds. */
__visible noinstr void exc_nmi(struct pt_regs *regs, unsigned long seconds)
{
	guard(irqentry)(regs);
	watchdog_soft_lockup(regs, seconds);
}

/* Handle the debug trap on the normal stack, as older kernels did. */
__visible noinstr void noist_exc_debug(struct pt_regs *regs)
{
	exc_debug(regs);
}
