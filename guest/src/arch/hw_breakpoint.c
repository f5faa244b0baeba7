// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The debug registers of x86. Those of a CPU are in its struct kpfs_pcpu, in the format of the
 * processor's manual; guest/emu/debugreg.py is told when they have changed, and from then on
 * raises #DB, with the cause in dr6, behind an instruction that has touched the memory.
 */
#include <kpfs/control.h>
#include <linux/err.h>
#include <linux/hw_breakpoint.h>
#include <linux/init.h>
#include <linux/kdebug.h>
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/mm.h>
#include <linux/notifier.h>
#include <linux/uaccess.h>

/* The trap has a stack of its own, as what is watched may lie on the task's. */
#define DEBUG_STACK_ORDER 1
#define DEBUG_STACK_SIZE (PAGE_SIZE << DEBUG_STACK_ORDER)
#define DR_GLOBAL_ENABLE(i) (2UL << 2 * (i))
#define DR_CONTROL(i, len, type) ((unsigned long)((len) << 2 | (type)) << (16 + 4 * (i)))
#define DR_CONTROL_BITS(i) (DR_CONTROL(i, 3, 3) | DR_GLOBAL_ENABLE(i))
#define X86_BREAKPOINT_WRITE 1
#define X86_BREAKPOINT_RW 3

struct bp_per_reg { struct perf_event *bp[HBP_NUM]; };
static DEFINE_PER_CPU(struct bp_per_reg, bp_per_reg);

static noinline void set_dr7(int cpu, unsigned long dr7)
{
	per_cpu(pcpu_hot, cpu).dr7 = dr7;
	kpfs_control(CTL_DEBUGREG, 0, 0);
}

int arch_install_hw_breakpoint(struct perf_event *bp)
{
	struct bp_per_reg *regs = per_cpu_ptr(&bp_per_reg, bp->cpu);
	struct kpfs_pcpu *pcpu = per_cpu_ptr(&pcpu_hot, bp->cpu);
	struct arch_hw_breakpoint *info = counter_arch_bp(bp);
	int i;

	for (i = 0; i < HBP_NUM && regs->bp[i]; i++)
		;
	if (WARN_ON_ONCE(i == HBP_NUM))
		return -EBUSY;
	if (!pcpu->debug_stack_top) {
		unsigned long stack = __get_free_pages(GFP_KERNEL, DEBUG_STACK_ORDER);

		if (!stack)
			return -ENOMEM;
		pcpu->debug_stack_top = stack + DEBUG_STACK_SIZE;
	}
	regs->bp[i] = bp;
	pcpu->dr[i] = info->address;
	set_dr7(bp->cpu, (pcpu->dr7 & ~DR_CONTROL_BITS(i)) | DR_GLOBAL_ENABLE(i) |
				 DR_CONTROL(i, info->len, info->type));
	return 0;
}

void arch_uninstall_hw_breakpoint(struct perf_event *bp)
{
	struct bp_per_reg *regs = per_cpu_ptr(&bp_per_reg, bp->cpu);

	for (int i = 0; i < HBP_NUM; i++) {
		if (regs->bp[i] != bp)
			continue;
		set_dr7(bp->cpu, per_cpu(pcpu_hot, bp->cpu).dr7 & ~DR_CONTROL_BITS(i));
		regs->bp[i] = NULL;
	}
}

bool arch_check_bp_in_kernelspace(struct arch_hw_breakpoint *hw)
{
	return hw->address >= TASK_SIZE_MAX;
}

static bool within_area(unsigned long addr, unsigned long end, unsigned long base,
			unsigned long size)
{
	return end >= base && addr < base + size;
}

/*
 * Return true if an area is touched on the way into the trap or out of it, which would never end.
 */
static noinline bool within_cpu_entry(unsigned long addr, unsigned long end)
{
	struct {
		u16 limit;
		u64 base;
	} __packed gdt;
	int cpu;

	__asm__("sgdt %0" : "=m"(gdt));
	if (within_area(addr, end, gdt.base, gdt.limit + 1UL))
		return true;
	for_each_possible_cpu(cpu) {
		struct kpfs_pcpu *pcpu = per_cpu_ptr(&pcpu_hot, cpu);

		if (within_area(addr, end, (unsigned long)pcpu, sizeof(*pcpu)) ||
		    within_area(addr, end, pcpu->debug_stack_top - DEBUG_STACK_SIZE,
				DEBUG_STACK_SIZE))
			return true;
	}
	return false;
}

static noinline int arch_build_bp_info(struct perf_event *bp, const struct perf_event_attr *attr,
				       struct arch_hw_breakpoint *hw)
{
	if (attr->bp_addr + attr->bp_len - 1 < attr->bp_addr ||
	    within_cpu_entry(attr->bp_addr, attr->bp_addr + attr->bp_len - 1))
		return -EINVAL;
	hw->address = attr->bp_addr;
	switch (attr->bp_type) {
	case HW_BREAKPOINT_W:  hw->type = X86_BREAKPOINT_WRITE; break;
	case HW_BREAKPOINT_RW: hw->type = X86_BREAKPOINT_RW; break;
	case HW_BREAKPOINT_X:  /* what kprobes are for */
		return attr->bp_len == sizeof(long) ? -EOPNOTSUPP : -EINVAL;
	default: return -EINVAL;
	}
	switch (attr->bp_len) {
	case HW_BREAKPOINT_LEN_1:
	case HW_BREAKPOINT_LEN_2:
	case HW_BREAKPOINT_LEN_4: hw->len = attr->bp_len - 1; return 0;
	case HW_BREAKPOINT_LEN_8: hw->len = 2; return 0;
	}
	/* a processor of AMD would take a range */
	if (!attr->bp_len || attr->bp_len & (attr->bp_len - 1) ||
	    attr->bp_addr & (attr->bp_len - 1))
		return -EINVAL;
	return -EOPNOTSUPP;
}

int hw_breakpoint_arch_parse(struct perf_event *bp, const struct perf_event_attr *attr,
			     struct arch_hw_breakpoint *hw)
{
	int err = arch_build_bp_info(bp, attr, hw);

	if (!err && hw->address & (attr->bp_len - 1))
		err = -EINVAL;
	return err;
}

static __always_inline int hw_breakpoint_handler(struct die_args *args)
{
	struct bp_per_reg *regs = this_cpu_ptr(&bp_per_reg);
	unsigned long *dr6 = (unsigned long *)ERR_PTR(args->err);
	int i, ret = NOTIFY_DONE;

	for (i = 0; i < HBP_NUM; i++) {
		if (!(*dr6 & 1UL << i) || !regs->bp[i])
			continue;
		*dr6 &= ~(1UL << i);
		perf_bp_event(regs->bp[i], args->regs);
		ret = NOTIFY_STOP;
	}
	return *dr6 ? NOTIFY_DONE : ret;
}

noinline int hw_breakpoint_exceptions_notify(struct notifier_block *unused, unsigned long val,
					     void *data)
{
	int ret = NOTIFY_DONE;

	if (val == DIE_DEBUG)
		ret = hw_breakpoint_handler(data);
	barrier();
	return ret;
}
NOKPROBE_SYMBOL(hw_breakpoint_exceptions_notify);

static struct notifier_block hw_breakpoint_exceptions_nb = {
	.notifier_call = hw_breakpoint_exceptions_notify,
	.priority = 0x7fffffff, /* the first */
};

static int __init init_hw_breakpoint(void)
{
	return register_die_notifier(&hw_breakpoint_exceptions_nb);
}
arch_initcall(init_hw_breakpoint);
