/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Per-CPU data: the section .data..percpu begins with struct kpfs_pcpu, %gs points at a
 * CPU's copy. CPU 0 uses the section itself, the others follow at __per_cpu_size steps.
 */
#pragma once
#include <kpfs/abi.h>
#include <linux/types.h>

#define NR_CPUS KPFS_NR_CPUS
#define DECLARE_PER_CPU(type, name) extern __typeof__(type) name
#define DEFINE_PER_CPU(type, name) __typeof__(type) name __section(".data..percpu")
#define DEFINE_PER_CPU_ALIGNED(type, name) DEFINE_PER_CPU(type, name) __aligned(64)
#define DEFINE_PER_CPU_SHARED_ALIGNED(type, name) DEFINE_PER_CPU_ALIGNED(type, name)
#define DEFINE_PER_CPU_READ_MOSTLY(type, name) DEFINE_PER_CPU(type, name)
#define EXPORT_PER_CPU_SYMBOL(v) EXPORT_SYMBOL(v)
#define EXPORT_PER_CPU_SYMBOL_GPL(v) EXPORT_SYMBOL_GPL(v)

extern char __per_cpu_start[], __per_cpu_end[], __per_cpu_size[];
extern unsigned long __per_cpu_offset[NR_CPUS];
DECLARE_PER_CPU(struct kpfs_pcpu, pcpu_hot);

static __always_inline unsigned long this_cpu_off(void)
{
	unsigned long off;

	__asm__("movq %%gs:0x70, %0" : "=r"(off));
	return off;
}

#define SHIFT_PERCPU_PTR(p, off) ((__typeof__(p))((unsigned long)(p) + (off)))
#define per_cpu_offset(cpu) (__per_cpu_offset[cpu])
#define per_cpu_ptr(p, cpu) SHIFT_PERCPU_PTR(p, per_cpu_offset(cpu))
#define per_cpu(v, cpu) (*per_cpu_ptr(&(v), cpu))
#define this_cpu_ptr(p) SHIFT_PERCPU_PTR(p, this_cpu_off())
#define raw_cpu_ptr(p) this_cpu_ptr(p)
#define __this_cpu_read(v) (*this_cpu_ptr(&(v)))
#define __this_cpu_write(v, x) (*this_cpu_ptr(&(v)) = (x))
#define __this_cpu_add(v, x) (*this_cpu_ptr(&(v)) += (x))
#define __this_cpu_inc(v) __this_cpu_add(v, 1)
#define __this_cpu_sub(v, x) __this_cpu_add(v, -(x))
#define __this_cpu_dec(v) __this_cpu_sub(v, 1)

/* In one instruction, so that the task may be moved to another CPU before or after it. */
#define __pcpu_at(v) ((unsigned long)&(v) - (unsigned long)&pcpu_hot)
#define __pcpu_asm(size, op, v, ...) \
	do { if (sizeof(v) == (size)) __asm__ __volatile__(op __VA_ARGS__); } while (0)
#define __pcpu_set(op, v, x) ({						\
	unsigned long x_ = (unsigned long)(x), at_ = __pcpu_at(v);	\
	__pcpu_asm(1, op "b %b0, %%gs:(%1)", v, : : "q"(x_), "r"(at_) : "memory"); \
	__pcpu_asm(2, op "w %w0, %%gs:(%1)", v, : : "r"(x_), "r"(at_) : "memory"); \
	__pcpu_asm(4, op "l %k0, %%gs:(%1)", v, : : "r"(x_), "r"(at_) : "memory"); \
	__pcpu_asm(8, op "q %q0, %%gs:(%1)", v, : : "r"(x_), "r"(at_) : "memory"); \
})
#define this_cpu_read(v) ({						\
	unsigned long x_ = 0, at_ = __pcpu_at(v);			\
	__pcpu_asm(1, "movb %%gs:(%1), %b0", v, : "+q"(x_) : "r"(at_) : "memory"); \
	__pcpu_asm(2, "movw %%gs:(%1), %w0", v, : "+r"(x_) : "r"(at_) : "memory"); \
	__pcpu_asm(4, "movl %%gs:(%1), %k0", v, : "+r"(x_) : "r"(at_) : "memory"); \
	__pcpu_asm(8, "movq %%gs:(%1), %q0", v, : "+r"(x_) : "r"(at_) : "memory"); \
	(__typeof__(v))x_;						\
})
#define this_cpu_write(v, x) __pcpu_set("mov", v, x)
#define this_cpu_add(v, x) __pcpu_set("add", v, x)
#define this_cpu_sub(v, x) __pcpu_set("sub", v, x)
#define this_cpu_inc(v) this_cpu_add(v, 1)
#define this_cpu_dec(v) this_cpu_sub(v, 1)

static __always_inline int smp_processor_id(void)
{
	int cpu;

	__asm__("movl %%gs:0x10, %0" : "=r"(cpu));
	return cpu;
}
#define raw_smp_processor_id() smp_processor_id()

/* The fields of struct kpfs_pcpu that the hot paths use, at their fixed offsets. */
static __always_inline int preempt_count(void)
{
	int n;

	__asm__ __volatile__("movl %%gs:0x14, %0" : "=r"(n) : : "memory");
	return n;
}

static __always_inline void __preempt_count_add(int n)
{
	__asm__ __volatile__("addl %0, %%gs:0x14" : : "ri"(n) : "memory");
}

static __always_inline void __preempt_count_sub(int n) { __preempt_count_add(-n); }

static __always_inline bool tif_need_resched(void)
{
	int n;

	__asm__ __volatile__("movl %%gs:0x18, %0" : "=r"(n) : : "memory");
	return n != 0;
}

static __always_inline void set_preempt_need_resched(int v)
{
	__asm__ __volatile__("movl %0, %%gs:0x18" : : "ri"(v) : "memory");
}

struct task_struct;
static __always_inline struct task_struct *get_current(void)
{
	struct task_struct *t;

	__asm__("movq %%gs:0x08, %0" : "=r"(t));
	return t;
}
#define current get_current()

static __always_inline void set_current(struct task_struct *t)
{
	__asm__ __volatile__("movq %0, %%gs:0x08" : : "r"(t) : "memory");
}

/* Room on every CPU, zeroed; it comes out of what is kept for modules' variables. */
void __percpu *__alloc_percpu(size_t size, size_t align);
void free_percpu(void __percpu *p);
#define alloc_percpu(type) ((type __percpu *)__alloc_percpu(sizeof(type), __alignof__(type)))

extern unsigned int nr_cpu_ids;
#define num_online_cpus() nr_cpu_ids
#define cpu_online(c) ((unsigned int)(c) < nr_cpu_ids)
#define for_each_possible_cpu(c) for ((c) = 0; (unsigned int)(c) < nr_cpu_ids; (c)++)
#define for_each_online_cpu(c) for_each_possible_cpu(c)
