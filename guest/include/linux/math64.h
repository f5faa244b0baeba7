/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/types.h>

static inline u64 div_u64(u64 n, u32 by) { return n / by; }
static inline s64 div_s64(s64 n, s32 by) { return n / by; }
static inline u64 div64_u64(u64 n, u64 by) { return n / by; }
static inline s64 div64_s64(s64 n, s64 by) { return n / by; }
static inline u64 div_u64_rem(u64 n, u32 by, u32 *rest)
{
	*rest = n % by;
	return n / by;
}
/* Divide n, which must be a variable, and return the rest. */
#define do_div(n, by) ({ u32 __by = (by), __rest = (n) % __by; (n) /= __by; __rest; })
