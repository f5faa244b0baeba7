/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/types.h>
void get_random_bytes(void *buf, size_t len);
u32 get_random_u32(void);
u64 get_random_u64(void);
static inline u16 get_random_u16(void) { return get_random_u32(); }
static inline u8 get_random_u8(void) { return get_random_u32(); }
static inline unsigned int get_random_int(void) { return get_random_u32(); }
static inline unsigned long get_random_long(void) { return get_random_u64(); }
static inline u32 prandom_u32(void) { return get_random_u32(); }
static inline u32 prandom_u32_max(u32 ceil) { return ((u64)get_random_u32() * ceil) >> 32; }
