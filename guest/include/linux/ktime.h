/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/kernel.h>
#include <linux/types.h>

#define CLOCK_REALTIME 0
#define CLOCK_MONOTONIC 1
struct timespec64 {
	time64_t tv_sec;
	long tv_nsec;
};
ktime_t ktime_get(void);
ktime_t ktime_get_real(void);
ktime_t ktime_get_boottime(void);
static inline u64 ktime_get_ns(void) { return ktime_get(); }
time64_t ktime_get_seconds(void);
time64_t ktime_get_real_seconds(void);
void ktime_get_real_ts64(struct timespec64 *ts);
void ktime_get_ts64(struct timespec64 *ts);
struct timespec64 ns_to_timespec64(s64 nsec);
#define ktime_sub(a, b) ((a) - (b))
#define ktime_add(a, b) ((a) + (b))
#define ktime_add_ns(k, n) ((k) + (ktime_t)(n))
#define ktime_to_ns(k) (k)
#define ns_to_ktime(n) ((ktime_t)(n))
#define ms_to_ktime(n) ((ktime_t)(n) * 1000000)
#define ktime_to_us(k) ((k) / 1000)
#define ktime_to_ms(k) ((k) / 1000000)
/* Later times become KTIME_MAX, which never comes: a sum must not wrap into the past. */
#define KTIME_SEC_MAX (KTIME_MAX / NSEC_PER_SEC)
static inline ktime_t ktime_set(s64 secs, unsigned long nsecs)
{
	return secs >= KTIME_SEC_MAX ? KTIME_MAX : secs * NSEC_PER_SEC + (s64)nsecs;
}
static inline ktime_t ktime_add_safe(ktime_t a, ktime_t b)
{
	ktime_t sum;

	return __builtin_add_overflow(a, b, &sum) || sum < 0 ? KTIME_MAX : sum;
}
#define ktime_compare(a, b) ((a) < (b) ? -1 : (a) > (b))
#define ktime_before(a, b) ((a) < (b))
#define ktime_after(a, b) ((a) > (b))
