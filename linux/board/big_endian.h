/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Big-endian words at addresses of the host, as tables and firmware of some architectures have. */
#include "board.h"

static inline u64 get64(u64 host)
{
	return __builtin_bswap64(*(u64 *)(uintptr_t)host);
}

static inline u32 get32(u64 host)
{
	return __builtin_bswap32(*(u32 *)(uintptr_t)host);
}

static inline u16 get16(u64 host)
{
	return __builtin_bswap16(*(u16 *)(uintptr_t)host);
}

static inline void put64(u64 host, u64 value)
{
	*(u64 *)(uintptr_t)host = __builtin_bswap64(value);
}

static inline void put32(u64 host, u32 value)
{
	*(u32 *)(uintptr_t)host = __builtin_bswap32(value);
}

static inline void put16(u64 host, u16 value)
{
	*(u16 *)(uintptr_t)host = __builtin_bswap16(value);
}
