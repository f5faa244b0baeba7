/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/atomic.h>

#define BIT(n) (1UL << (n))
#define BIT_ULL(n) (1ULL << (n))
#define GENMASK(high, low) ((~0UL << (low)) & (~0UL >> (63 - (high))))
#define DECLARE_BITMAP(name, bits) unsigned long name[((bits) + 63) / 64]

static __always_inline int ffs(int x) { return __builtin_ffs(x); }
static __always_inline unsigned long __ffs(unsigned long x) { return __builtin_ctzl(x); }
static __always_inline unsigned long ffz(unsigned long x) { return __ffs(~x); }
static __always_inline int fls(unsigned int x) { return x ? 32 - __builtin_clz(x) : 0; }
static __always_inline int fls64(u64 x) { return x ? 64 - __builtin_clzl(x) : 0; }
static __always_inline unsigned long __fls(unsigned long x) { return 63 - __builtin_clzl(x); }
static inline unsigned int hweight64(u64 x)
{
	unsigned int n = 0;

	for (; x; x &= x - 1)
		n++;
	return n;
}
#define hweight_long(x) hweight64(x)
#define hweight32(x) hweight64((u32)(x))

/* Return the first bit from start on that is set, or size. */
static inline unsigned long find_next_bit(const unsigned long *p, unsigned long size,
					  unsigned long start)
{
	while (start < size && !(p[start / 64] >> (start % 64) & 1))
		start++;
	return start < size ? start : size;
}
#define find_first_bit(p, size) find_next_bit(p, size, 0)
#define for_each_set_bit(bit, p, size) \
	for ((bit) = find_first_bit(p, size); (bit) < (size); \
	     (bit) = find_next_bit(p, size, (bit) + 1))
