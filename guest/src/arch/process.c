// SPDX-License-Identifier: GPL-2.0-or-later
/* Context switches, but for the stack; starting CPUs. */
#include <kpfs/hypercall.h>
#include <linux/cpumask.h>
#include <linux/sched.h>
#include <linux/tick.h>

unsigned int nr_cpu_ids = 1;
unsigned long __per_cpu_offset[NR_CPUS];
struct cpumask cpu_bit_bitmap[NR_CPUS];
struct cpumask __cpu_possible_mask, __cpu_present_mask, __cpu_online_mask, __cpu_active_mask;

struct kpfs_pcpu pcpu_hot __section(".data..percpu.first") = {
	.self = (unsigned long)&pcpu_hot,
	.current_task = (unsigned long)&init_task,
	.preempt_count = 1,
	.next_deadline = ~0UL,
};

__visible notrace struct task_struct *__switch_to(struct task_struct *prev,
						  struct task_struct *next)
{
	set_current(next);
	return prev;
}

/* Copy CPU 0's area for the others. */
void __init setup_per_cpu_areas(unsigned long nr_cpus)
{
	unsigned long cpu, size = __per_cpu_end - __per_cpu_start;

	nr_cpu_ids = nr_cpus;
	cpumask_setall(&__cpu_possible_mask);
	cpumask_setall(&__cpu_present_mask);
	for (cpu = 0; cpu < nr_cpus; cpu++)
		cpumask_set_cpu(cpu, &cpu_bit_bitmap[cpu]);
	for (cpu = 1; cpu < nr_cpus; cpu++) {
		struct kpfs_pcpu *pcpu;

		__per_cpu_offset[cpu] = cpu * size;
		pcpu = per_cpu_ptr(&pcpu_hot, cpu);
		__builtin_memcpy(pcpu, __per_cpu_start, size);
		pcpu->self = (unsigned long)pcpu;
		pcpu->cpu_number = cpu;
		pcpu->this_cpu_off = cpu * size;
	}
}

noinline void set_cpu_online(unsigned int cpu)
{
	cpumask_set_cpu(cpu, &__cpu_online_mask);
	cpumask_set_cpu(cpu, &__cpu_active_mask);
}

void smp_prepare_cpus(void)
{
	set_cpu_online(0);
	for (unsigned int cpu = 1; cpu < nr_cpu_ids; cpu++)
		fork_idle(cpu);
}

/* Start a CPU other than 0, once CPU 0 idles. */
__visible void __noreturn start_secondary(unsigned long cpu)
{
	set_cpu_online(cpu);
	tick_setup_sched_timer();
	local_irq_enable();
	cpu_startup_entry();
	unreachable();
}

void __noreturn stop_this_cpu(void)
{
	for (;;) {
		local_irq_disable();
		hypercall(HC_PANIC, smp_processor_id());
	}
}
