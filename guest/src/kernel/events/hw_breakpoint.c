// SPDX-License-Identifier: GPL-2.0-or-later
/* Breakpoints by the processor's debug registers: what has nothing to do with x86. */
#include <linux/hw_breakpoint.h>
#include <linux/kprobes.h>
#include <linux/mutex.h>

static DEFINE_MUTEX(bp_cpuinfo_sem);
static DEFINE_PER_CPU(unsigned int, cpu_pinned); /* data breakpoints that are reserved */

static noinline int __reserve_bp_slot(struct perf_event *bp, u64 bp_type)
{
	unsigned int *pinned = per_cpu_ptr(&cpu_pinned, bp->cpu);

	if (bp_type == HW_BREAKPOINT_EMPTY || bp_type == HW_BREAKPOINT_INVALID)
		return -EINVAL;
	if (*pinned >= HBP_NUM)
		return -ENOSPC;
	++*pinned;
	return 0;
}

static noinline int reserve_bp_slot(struct perf_event *bp)
{
	guard(mutex)(&bp_cpuinfo_sem);
	return __reserve_bp_slot(bp, bp->attr.bp_type);
}

noinline void release_bp_slot(struct perf_event *bp)
{
	guard(mutex)(&bp_cpuinfo_sem);
	--*per_cpu_ptr(&cpu_pinned, bp->cpu);
}

static noinline int hw_breakpoint_parse(struct perf_event *bp, const struct perf_event_attr *attr,
					struct arch_hw_breakpoint *hw)
{
	int err = hw_breakpoint_arch_parse(bp, attr, hw);

	if (!err && arch_check_bp_in_kernelspace(hw) && attr->exclude_kernel)
		err = -EINVAL;
	return err;
}

int register_perf_hw_breakpoint(struct perf_event *bp)
{
	struct arch_hw_breakpoint hw = {};
	int err = reserve_bp_slot(bp);

	if (err)
		return err;
	err = hw_breakpoint_parse(bp, &bp->attr, &hw);
	if (err)
		release_bp_slot(bp);
	else
		bp->hw.info = hw;
	return err;
}

/* Handle a hit, from the trap: data is its struct pt_regs. */
noinline void perf_bp_event(struct perf_event *bp, void *data)
{
	struct perf_sample_data sample = { .addr = bp->attr.bp_addr };
	struct pt_regs *regs = data;

	if (!bp->attr.exclude_kernel)
		perf_swevent_event(bp, 1, &sample, regs);
	barrier();
}
NOKPROBE_SYMBOL(perf_bp_event);

noinline void unregister_hw_breakpoint(struct perf_event *bp)
{
	if (bp)
		perf_event_release_kernel(bp);
}

struct perf_event * __percpu *
	register_wide_hw_breakpoint(struct perf_event_attr *attr, perf_overflow_handler_t triggered,
				    void *context)
{
	struct perf_event * __percpu * cpu_events, *bp;
	int cpu, err = 0;

	cpu_events = alloc_percpu(typeof(*cpu_events));
	if (!cpu_events)
		return (void __percpu __force *)ERR_PTR(-ENOMEM);
	for_each_online_cpu(cpu) {
		bp = perf_event_create_kernel_counter(attr, cpu, NULL, triggered, context);
		if (IS_ERR(bp)) {
			err = PTR_ERR(bp);
			break;
		}
		per_cpu(*cpu_events, cpu) = bp;
	}
	if (!err)
		return cpu_events;
	unregister_wide_hw_breakpoint(cpu_events);
	return (void __percpu __force *)ERR_PTR(err);
}

noinline void unregister_wide_hw_breakpoint(struct perf_event * __percpu * cpu_events)
{
	int cpu;

	for_each_possible_cpu(cpu)
		unregister_hw_breakpoint(per_cpu(*cpu_events, cpu));
	free_percpu(cpu_events);
}
