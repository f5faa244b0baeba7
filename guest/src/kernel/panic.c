// SPDX-License-Identifier: GPL-2.0-or-later
/* When things go wrong: BUG, WARN, panic, and what the machine looked like. */
#include <kpfs/hypercall.h>
#include <linux/kdebug.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <kpfs/control.h>
#include <linux/uaccess.h>
#include <linux/utsname.h>

#define PROLOGUE_SIZE 42 /* bytes shown before the faulting instruction, and behind its first */
#define EPILOGUE_SIZE 21
#define MSR_FS_BASE 0xc0000100
#define MSR_GS_BASE 0xc0000101
#define MSR_KERNEL_GS_BASE 0xc0000102

void stop_this_cpu(void) __noreturn;
/* The letters of each flag: set and not set. */
static const char taint_flags[] = "PGF S R M B U D A W C I O E L K X T N ";
static unsigned long tainted_mask;
static ATOMIC_NOTIFIER_HEAD(panic_notifier_list);

static void panic_print_sys_info(void)
{
	dump_stack();
}

void panic(const char *fmt, ...)
{
	char buf[256];

	local_irq_disable();
	with_va_list(args, fmt, vscnprintf(buf, sizeof(buf), fmt, args));
	pr_emerg("Kernel panic - not syncing: %s\n", buf);
	panic_print_sys_info();
	atomic_notifier_call_chain(&panic_notifier_list, 0, buf);
	pr_emerg("---[ end Kernel panic - not syncing: %s ]---\n", buf);
	stop_this_cpu();
}

noinline void add_taint(unsigned int flag, enum lockdep_ok lockdep_ok)
{
	tainted_mask |= 1UL << flag;
}

/* Return "Tainted: G           O      ", in one place for all callers. */
noinline const char *print_tainted(void)
{
	static char buf[sizeof("Tainted: ") + sizeof(taint_flags) / 2];
	unsigned int i, n;

	if (!tainted_mask)
		return "Not tainted";
	n = sprintf(buf, "Tainted: ");
	for (i = 0; i < sizeof(taint_flags) / 2; i++)
		buf[n++] = taint_flags[2 * i + !(tainted_mask >> i & 1)];
	return buf;
}

static void print_oops_end_marker(void)
{
	pr_warn("---[ end trace 0000000000000000 ]---\n");
}

void oops_exit(void)
{
	print_oops_end_marker();
}

noinline struct bug_entry *find_bug(unsigned long bugaddr)
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

noinline void __warn(const char *file, int line, void *caller, struct pt_regs *regs)
{
	pr_warn("WARNING: CPU: %d PID: %d at %s:%d %pS\n", smp_processor_id(), current->pid, file,
		line, caller);
	print_modules();
	show_regs(regs);
	print_oops_end_marker();
	add_taint(TAINT_WARN, LOCKDEP_STILL_OK);
}

void __warn_printk(const char *fmt, ...)
{
	pr_warn(CUT_HERE);
	with_va_list(args, fmt, vprintk(fmt, args));
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
		if (!(bug->flags & BUGFLAG_NO_CUT_HERE))
			pr_warn(CUT_HERE);
		__warn(file, line, (void *)bugaddr, regs);
		return BUG_TRAP_TYPE_WARN;
	}
	pr_crit(CUT_HERE);
	pr_crit("kernel BUG at %s:%u!\n", file, line);
	return BUG_TRAP_TYPE_BUG;
}

int report_bug(unsigned long bugaddr, struct pt_regs *regs)
{
	return __report_bug(bugaddr, regs);
}

/* Show the stack below a trap, or that of the caller. */
static noinline void show_trace(struct pt_regs *regs, const char *loglvl)
{
	unsigned long entries[64], unsure;
	struct kpfs_stack_trace args = { entries, ARRAY_SIZE(entries), 0, regs, &unsure };
	long i, n = kpfs_control(CTL_STACK_TRACE, (unsigned long)&args, 0);

	printk("%sCall Trace:\n", loglvl);
	printk("%s <TASK>\n", loglvl);
	for (i = 0; i < n; i++)
		printk("%s %s%pB\n", loglvl, unsure >> i & 1 ? "? " : "", (void *)entries[i]);
	printk("%s </TASK>\n", loglvl);
}

static noinline void show_ip(struct pt_regs *regs, const char *loglvl)
{
	printk("%sRIP: %04lx:%pS\n", loglvl, regs->cs, (void *)regs->ip);
}

static noinline void show_opcodes(struct pt_regs *regs, const char *loglvl)
{
	unsigned long prologue = regs->ip - PROLOGUE_SIZE;
	u8 opcodes[PROLOGUE_SIZE + 1 + EPILOGUE_SIZE];
	char line[3 * sizeof(opcodes) + 3], *p = line;

	if (copy_from_kernel_nofault(opcodes, (void *)prologue, sizeof(opcodes))) {
		printk("%sCode: Unable to access opcode bytes at 0x%lx.\n", loglvl, prologue);
		return;
	}
	for (unsigned int i = 0; i < sizeof(opcodes); i++)
		p += sprintf(p, i == PROLOGUE_SIZE ? "<%02x> " : "%02x ", opcodes[i]);
	p[-1] = 0;
	printk("%sCode: %s\n", loglvl, line);
}

static noinline unsigned long rdmsrl(unsigned int msr)
{
	unsigned int low, high;

	__asm__ __volatile__("rdmsr" : "=a"(low), "=d"(high) : "c"(msr));
	return low | (unsigned long)high << 32;
}

#define READ_CR(n) ({ unsigned long v_; __asm__ __volatile__("mov %%cr" #n ", %0" : "=r"(v_)); v_; })
#define READ_SEGMENT(s) ({ unsigned int v_; __asm__ __volatile__("movl %%" #s ", %0" : "=r"(v_)); v_; })

void __show_regs(struct pt_regs *regs, const char *l)
{
	show_ip(regs, l);
	show_opcodes(regs, l);
	printk("%sRSP: %04lx:%016lx EFLAGS: %08lx", l, regs->ss, regs->sp, regs->flags);
	if (regs->orig_ax != -1UL)
		pr_cont(" ORIG_RAX: %016lx\n", regs->orig_ax);
	else
		pr_cont("\n");
	printk("%sRAX: %016lx RBX: %016lx RCX: %016lx\n", l, regs->ax, regs->bx, regs->cx);
	printk("%sRDX: %016lx RSI: %016lx RDI: %016lx\n", l, regs->dx, regs->si, regs->di);
	printk("%sRBP: %016lx R08: %016lx R09: %016lx\n", l, regs->bp, regs->r8, regs->r9);
	printk("%sR10: %016lx R11: %016lx R12: %016lx\n", l, regs->r10, regs->r11, regs->r12);
	printk("%sR13: %016lx R14: %016lx R15: %016lx\n", l, regs->r13, regs->r14, regs->r15);
	printk("%sFS:  %016lx(%04x) GS:%016lx(%04x) knlGS:%016lx\n", l, rdmsrl(MSR_FS_BASE),
	       READ_SEGMENT(fs), rdmsrl(MSR_GS_BASE), READ_SEGMENT(gs), rdmsrl(MSR_KERNEL_GS_BASE));
	printk("%sCS:  %04lx DS: %04x ES: %04x CR0: %016lx\n", l, regs->cs, READ_SEGMENT(ds),
	       READ_SEGMENT(es), READ_CR(0));
	printk("%sCR2: %016lx CR3: %016lx CR4: %016lx\n", l, READ_CR(2), READ_CR(3), READ_CR(4));
}

static void show_regs_print_info(const char *log_lvl)
{
	const char *version = init_utsname()->version;

	printk("%sCPU: %d PID: %d Comm: %.20s %s %s %.*s\n", log_lvl, smp_processor_id(),
	       current->pid, current->comm, print_tainted(), init_utsname()->release,
	       (int)strcspn(version, " "), version);
}

noinline void show_regs(struct pt_regs *regs)
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
