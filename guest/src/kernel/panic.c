// SPDX-License-Identifier: GPL-2.0-or-later
/* When things go wrong: BUG, WARN, panic, and what the machine looked like. */
#include <kpfs/hypercall.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/sched.h>
#include <linux/stacktrace.h>
#include <linux/utsname.h>

void stop_this_cpu(void) __noreturn;
static ATOMIC_NOTIFIER_HEAD(panic_notifier_list);

static void panic_print_sys_info(void)
{
	dump_stack();
}

void panic(const char *fmt, ...)
{
	char buf[256];
	va_list args;

	local_irq_disable();
	va_start(args, fmt);
	vscnprintf(buf, sizeof(buf), fmt, args);
	va_end(args);
	pr_emerg("Kernel panic - not syncing: %s\n", buf);
	panic_print_sys_info();
	atomic_notifier_call_chain(&panic_notifier_list, 0, buf);
	pr_emerg("---[ end Kernel panic - not syncing: %s ]---\n", buf);
	stop_this_cpu();
}

struct bug_entry *find_bug(unsigned long bugaddr)
{
	struct bug_entry *bug;

	for (bug = __start___bug_table; bug < __stop___bug_table; bug++)
		if ((unsigned long)&bug->bug_addr_disp + bug->bug_addr_disp == bugaddr)
			return bug;
	return module_find_bug(bugaddr);
}

static void bug_get_file_line(struct bug_entry *bug, const char **file, unsigned int *line)
{
	*file = (const char *)&bug->file_disp + bug->file_disp;
	*line = bug->line;
}

void __warn(const char *file, int line, void *caller, struct pt_regs *regs)
{
	pr_warn("------------[ cut here ]------------\n");
	pr_warn("WARNING: CPU: %d PID: %d at %s:%d %pS\n", smp_processor_id(), current->pid, file, line, caller);
	show_regs(regs);
	pr_warn("---[ end trace 0000000000000000 ]---\n");
}

static noinline int __report_bug(unsigned long bugaddr, struct pt_regs *regs)
{
	struct bug_entry *bug = find_bug(bugaddr);
	const char *file;
	unsigned int line;

	if (!bug)
		return BUG_TRAP_TYPE_NONE;
	bug_get_file_line(bug, &file, &line);
	if (bug->flags & BUGFLAG_WARNING) {
		if (bug->flags & BUGFLAG_DONE)
			return BUG_TRAP_TYPE_WARN;
		if (bug->flags & BUGFLAG_ONCE)
			bug->flags |= BUGFLAG_DONE;
		__warn(file, line, (void *)bugaddr, regs);
		return BUG_TRAP_TYPE_WARN;
	}
	pr_crit("------------[ cut here ]------------\n");
	pr_crit("kernel BUG at %s:%u!\n", file, line);
	return BUG_TRAP_TYPE_BUG;
}

int report_bug(unsigned long bugaddr, struct pt_regs *regs)
{
	return __report_bug(bugaddr, regs);
}

/* What lies on the stack below a trap, or of the caller. */
static noinline void show_trace(struct pt_regs *regs, const char *loglvl)
{
	unsigned long entries[32];
	unsigned int i, n;

	n = regs ? stack_trace_save_regs(regs, entries, ARRAY_SIZE(entries), 1)
		 : stack_trace_save(entries, ARRAY_SIZE(entries), 1);
	printk("%sCall Trace:\n", loglvl);
	printk("%s <TASK>\n", loglvl);
	for (i = 0; i < n; i++)
		printk("%s %pB\n", loglvl, (void *)entries[i]);
	printk("%s </TASK>\n", loglvl);
}

void show_stack(unsigned long *sp, const char *loglvl)
{
	show_trace(NULL, loglvl);
}

static noinline void show_ip(struct pt_regs *regs, const char *loglvl)
{
	printk("%sRIP: 0010:%pS\n", loglvl, (void *)regs->ip);
}

void __show_regs(struct pt_regs *regs, const char *l)
{
	show_ip(regs, l);
	printk("%sRSP: 0018:%016lx EFLAGS: %08lx\n", l, regs->sp, regs->flags);
	printk("%sRAX: %016lx RBX: %016lx RCX: %016lx\n", l, regs->ax, regs->bx, regs->cx);
	printk("%sRDX: %016lx RSI: %016lx RDI: %016lx\n", l, regs->dx, regs->si, regs->di);
	printk("%sRBP: %016lx R08: %016lx R09: %016lx\n", l, regs->bp, regs->r8, regs->r9);
	printk("%sR10: %016lx R11: %016lx R12: %016lx\n", l, regs->r10, regs->r11, regs->r12);
	printk("%sR13: %016lx R14: %016lx R15: %016lx\n", l, regs->r13, regs->r14, regs->r15);
}

static void show_regs_print_info(const char *log_lvl)
{
	printk("%sCPU: %d PID: %d Comm: %s Not tainted %s %s\n", log_lvl, smp_processor_id(), current->pid,
	       current->comm, init_utsname()->release, init_utsname()->version);
}

void show_regs(struct pt_regs *regs)
{
	show_regs_print_info(KERN_DEFAULT);
	__show_regs(regs, KERN_DEFAULT);
	show_trace(regs, KERN_DEFAULT);
}

void dump_stack(void)
{
	show_regs_print_info(KERN_DEFAULT);
	show_trace(NULL, KERN_DEFAULT);
}
