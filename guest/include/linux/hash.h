/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Hashes of numbers and addresses: the product with a constant, its highest bits. */
#pragma once
#include <linux/types.h>

#define GOLDEN_RATIO_32 0x61c88647U
#define GOLDEN_RATIO_64 0x61c8864680b583ebULL
#define GOLDEN_RATIO_PRIME GOLDEN_RATIO_64
#define hash_long(val, bits) hash_64(val, bits)

static inline u32 __hash_32(u32 val) { return val * GOLDEN_RATIO_32; }
static inline u32 hash_32(u32 val, unsigned int bits) { return __hash_32(val) >> (32 - bits); }
static __always_inline u32 hash_64(u64 val, unsigned int bits)
{
	return val * GOLDEN_RATIO_64 >> (64 - bits);
}
static inline u32 hash_ptr(const void *ptr, unsigned int bits)
{
	return hash_64((unsigned long)ptr, bits);
}
static inline u32 hash32_ptr(const void *ptr)
{
	return (unsigned long)ptr ^ (unsigned long)ptr >> 32;
}
