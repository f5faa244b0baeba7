/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Big-endian words at addresses of the host, as tables and firmware of some architectures have. */
#include "board.h"

/* Words in memory that is known by other types, too: the compiler keeps the order of accesses. */
typedef u64 __attribute__((may_alias)) any64;
typedef u32 __attribute__((may_alias)) any32;
typedef u16 __attribute__((may_alias)) any16;

static inline u64 get64(u64 host)
{
	return __builtin_bswap64(*(any64 *)(uintptr_t)host);
}

static inline u32 get32(u64 host)
{
	return __builtin_bswap32(*(any32 *)(uintptr_t)host);
}

static inline u16 get16(u64 host)
{
	return __builtin_bswap16(*(any16 *)(uintptr_t)host);
}

static inline void put64(u64 host, u64 value)
{
	*(any64 *)(uintptr_t)host = __builtin_bswap64(value);
}

static inline void put32(u64 host, u32 value)
{
	*(any32 *)(uintptr_t)host = __builtin_bswap32(value);
}

static inline void put16(u64 host, u16 value)
{
	*(any16 *)(uintptr_t)host = __builtin_bswap16(value);
}
