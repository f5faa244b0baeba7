/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/types.h>

#define ATOMIC_INIT(i) { (i) }
#define ATOMIC64_INIT(i) { (i) }
#define ATOMIC_LONG_INIT(i) { (i) }
#define __ATOMIC_OPS(pfx, type, val) \
static __always_inline val pfx##_read(const type *v) { return READ_ONCE(v->counter); } \
static __always_inline void pfx##_set(type *v, val i) { WRITE_ONCE(v->counter, i); } \
static __always_inline val pfx##_add_return(val i, type *v) \
{ return __atomic_add_fetch(&v->counter, i, __ATOMIC_SEQ_CST); } \
static __always_inline val pfx##_sub_return(val i, type *v) { return pfx##_add_return(-i, v); } \
static __always_inline void pfx##_add(val i, type *v) { (void)pfx##_add_return(i, v); } \
static __always_inline void pfx##_sub(val i, type *v) { (void)pfx##_add_return(-i, v); } \
static __always_inline void pfx##_inc(type *v) { (void)pfx##_add_return(1, v); } \
static __always_inline void pfx##_dec(type *v) { (void)pfx##_add_return(-1, v); } \
static __always_inline val pfx##_inc_return(type *v) { return pfx##_add_return(1, v); } \
static __always_inline val pfx##_dec_return(type *v) { return pfx##_add_return(-1, v); } \
static __always_inline bool pfx##_dec_and_test(type *v) { return pfx##_dec_return(v) == 0; } \
static __always_inline bool pfx##_inc_not_zero(type *v) \
{ if (!pfx##_read(v)) return false; pfx##_inc(v); return true; } \
static __always_inline val pfx##_xchg(type *v, val n) \
{ return __atomic_exchange_n(&v->counter, n, __ATOMIC_SEQ_CST); } \
static __always_inline val pfx##_cmpxchg(type *v, val o, val n) \
{ __atomic_compare_exchange_n(&v->counter, &o, n, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); return o; }
__ATOMIC_OPS(atomic, atomic_t, int)
__ATOMIC_OPS(atomic64, atomic64_t, s64)
__ATOMIC_OPS(atomic_long, atomic_long_t, long)

#define REFCOUNT_INIT(n) { ATOMIC_INIT(n) }
static inline void refcount_set(refcount_t *r, int n) { atomic_set(&r->refs, n); }
static inline unsigned int refcount_read(const refcount_t *r) { return atomic_read(&r->refs); }
static inline void refcount_inc(refcount_t *r) { atomic_inc(&r->refs); }
static inline bool refcount_inc_not_zero(refcount_t *r) { return atomic_inc_not_zero(&r->refs); }
static inline bool refcount_dec_and_test(refcount_t *r) { return atomic_dec_and_test(&r->refs); }

#define xchg(p, v) __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST)
#define cmpxchg(p, o, n) ({ __typeof__(*(p)) __o = (o); \
	__atomic_compare_exchange_n(p, &__o, n, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); __o; })
#define smp_mb() __sync_synchronize()
#define smp_rmb() barrier()
#define smp_wmb() barrier()
#define smp_store_release(p, v) do { barrier(); WRITE_ONCE(*(p), v); } while (0)
#define smp_load_acquire(p) ({ __typeof__(*(p)) __v = READ_ONCE(*(p)); barrier(); __v; })

#define BITS_PER_LONG 64
#define BITS_PER_BYTE 8
static __always_inline void set_bit(long nr, volatile unsigned long *p)
{
	__atomic_or_fetch(&p[nr / 64], 1UL << (nr & 63), __ATOMIC_SEQ_CST);
}
static __always_inline void clear_bit(long nr, volatile unsigned long *p)
{
	__atomic_and_fetch(&p[nr / 64], ~(1UL << (nr & 63)), __ATOMIC_SEQ_CST);
}
static __always_inline bool test_and_set_bit(long nr, volatile unsigned long *p)
{
	return __atomic_fetch_or(&p[nr / 64], 1UL << (nr & 63), __ATOMIC_SEQ_CST) >> (nr & 63) & 1;
}
static __always_inline bool test_and_clear_bit(long nr, volatile unsigned long *p)
{
	return __atomic_fetch_and(&p[nr / 64], ~(1UL << (nr & 63)), __ATOMIC_SEQ_CST) >> (nr & 63) &
	       1;
}
static __always_inline bool test_bit(long nr, const volatile unsigned long *p)
{
	return p[nr / 64] >> (nr & 63) & 1;
}
#define __set_bit(n, p) ((p)[(n) / 64] |= 1UL << ((n) & 63))
#define __clear_bit(n, p) ((p)[(n) / 64] &= ~(1UL << ((n) & 63)))
