/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Counters that one CPU changes. */
#pragma once
#include <linux/atomic.h>

typedef atomic64_t local64_t;
#define LOCAL64_INIT(i) ATOMIC64_INIT(i)
#define local64_read(l) atomic64_read(l)
#define local64_set(l, i) atomic64_set(l, i)
#define local64_add(i, l) atomic64_add(i, l)
#define local64_sub(i, l) atomic64_sub(i, l)
#define local64_inc(l) atomic64_inc(l)
#define local64_dec(l) atomic64_dec(l)
#define local64_add_return(i, l) atomic64_add_return(i, l)
#define local64_xchg(l, n) atomic64_xchg(l, n)
