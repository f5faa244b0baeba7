/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/bitops.h>

static __always_inline bool is_power_of_2(unsigned long n) { return n && !(n & (n - 1)); }
#define ilog2(n) (63 - __builtin_clzl(n))
static inline unsigned long roundup_pow_of_two(unsigned long n) { return 1UL << fls64(n - 1); }
static inline unsigned long rounddown_pow_of_two(unsigned long n) { return 1UL << ilog2(n); }
