/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sets of CPUs. */
#pragma once
#include <linux/atomic.h>
#include <linux/percpu.h>

typedef struct cpumask { unsigned long bits[1]; } cpumask_t;
typedef struct cpumask cpumask_var_t[1];
#define nr_cpumask_bits nr_cpu_ids
#define cpumask_bits(m) ((m)->bits)
static_assert(NR_CPUS <= BITS_PER_LONG, "a cpumask is one word");

extern struct cpumask __cpu_possible_mask, __cpu_online_mask, __cpu_present_mask, __cpu_active_mask;
#define cpu_possible_mask ((const struct cpumask *)&__cpu_possible_mask)
#define cpu_online_mask ((const struct cpumask *)&__cpu_online_mask)
#define cpu_present_mask ((const struct cpumask *)&__cpu_present_mask)
#define cpu_active_mask ((const struct cpumask *)&__cpu_active_mask)
extern struct cpumask cpu_bit_bitmap[NR_CPUS];
#define cpumask_of(cpu) ((const struct cpumask *)&cpu_bit_bitmap[cpu])
#define num_possible_cpus() cpumask_weight(cpu_possible_mask)
#define num_present_cpus() cpumask_weight(cpu_present_mask)
#define cpu_possible(c) cpumask_test_cpu(c, cpu_possible_mask)
#define cpu_present(c) cpumask_test_cpu(c, cpu_present_mask)

/* The CPUs that there may be, as a word. */
#define __CPU_BITS ((1UL << nr_cpu_ids) - 1)

static __always_inline void cpumask_set_cpu(uint cpu, struct cpumask *m) { set_bit(cpu, m->bits); }
static inline void cpumask_clear_cpu(int cpu, struct cpumask *m) { clear_bit(cpu, m->bits); }
static inline bool cpumask_test_cpu(int cpu, const struct cpumask *m)
{
	return test_bit(cpu, m->bits);
}
static inline bool cpumask_test_and_set_cpu(int cpu, struct cpumask *m)
{
	return test_and_set_bit(cpu, m->bits);
}
static inline bool cpumask_test_and_clear_cpu(int cpu, struct cpumask *m)
{
	return test_and_clear_bit(cpu, m->bits);
}
static inline void cpumask_clear(struct cpumask *m) { m->bits[0] = 0; }
static inline void cpumask_setall(struct cpumask *m) { m->bits[0] = __CPU_BITS; }
static inline void cpumask_copy(struct cpumask *d, const struct cpumask *s) { *d = *s; }
static inline bool cpumask_and(struct cpumask *d, const struct cpumask *a, const struct cpumask *b)
{
	return (d->bits[0] = a->bits[0] & b->bits[0] & __CPU_BITS) != 0;
}
static inline void cpumask_or(struct cpumask *d, const struct cpumask *a, const struct cpumask *b)
{
	d->bits[0] = a->bits[0] | b->bits[0];
}
static inline bool cpumask_andnot(struct cpumask *d, const struct cpumask *a,
				  const struct cpumask *b)
{
	return (d->bits[0] = a->bits[0] & ~b->bits[0] & __CPU_BITS) != 0;
}
static inline bool cpumask_empty(const struct cpumask *m) { return !(m->bits[0] & __CPU_BITS); }
static inline bool cpumask_equal(const struct cpumask *a, const struct cpumask *b)
{
	return !((a->bits[0] ^ b->bits[0]) & __CPU_BITS);
}
static inline bool cpumask_subset(const struct cpumask *a, const struct cpumask *b)
{
	return !(a->bits[0] & ~b->bits[0] & __CPU_BITS);
}
static inline bool cpumask_intersects(const struct cpumask *a, const struct cpumask *b)
{
	return (a->bits[0] & b->bits[0] & __CPU_BITS) != 0;
}
static inline unsigned int cpumask_weight(const struct cpumask *m)
{
	unsigned long bits = m->bits[0] & __CPU_BITS;
	unsigned int n = 0;

	for (; bits; bits &= bits - 1)
		n++;
	return n;
}

/*
 * Return the first CPU of the set behind n, which is -1 for all; nr_cpu_ids or more: there is
 * none.
 */
static inline unsigned int cpumask_next(int n, const struct cpumask *m)
{
	unsigned long bits = m->bits[0] & __CPU_BITS & -(1UL << (n + 1));

	return bits ? (unsigned int)__builtin_ctzl(bits) : nr_cpu_ids;
}
static inline unsigned int cpumask_first(const struct cpumask *m) { return cpumask_next(-1, m); }
#define for_each_cpu(cpu, m) \
	for ((cpu) = -1; (cpu) = cpumask_next((cpu), (m)), (unsigned int)(cpu) < nr_cpu_ids;)
#define for_each_present_cpu(cpu) for_each_cpu(cpu, cpu_present_mask)

static inline bool alloc_cpumask_var(cpumask_var_t *m, gfp_t flags) { return true; }
static inline bool zalloc_cpumask_var(cpumask_var_t *m, gfp_t flags)
{
	cpumask_clear(*m);
	return true;
}
static inline void free_cpumask_var(cpumask_var_t m) {}
