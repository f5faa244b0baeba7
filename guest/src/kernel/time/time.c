// SPDX-License-Identifier: GPL-2.0-or-later
/* Units of time, and the system calls that tell it. */
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>

unsigned long msecs_to_jiffies(unsigned int m)
{
	return DIV_ROUND_UP((unsigned long)m * HZ, 1000);
}

unsigned int jiffies_to_msecs(unsigned long j)
{
	return j * (1000 / HZ);
}

unsigned long usecs_to_jiffies(unsigned int u)
{
	return DIV_ROUND_UP((unsigned long)u * HZ, 1000000);
}

unsigned long nsecs_to_jiffies(u64 n)
{
	return n / TICK_NSEC;
}

noinline int put_timespec64(const struct timespec64 *ts, void __user *uts)
{
	return copy_to_user(uts, ts, sizeof(*ts)) ? -EFAULT : 0;
}

int get_timespec64(struct timespec64 *ts, const void __user *uts)
{
	if (copy_from_user(ts, uts, sizeof(*ts)))
		return -EFAULT;
	return ts->tv_sec < 0 || (unsigned long)ts->tv_nsec >= NSEC_PER_SEC ? -EINVAL : 0;
}

typedef long __kernel_old_time_t;
struct __kernel_old_timeval;
struct timezone;
struct __kernel_timespec;

SYSCALL_DEFINE1(time, __kernel_old_time_t __user *, tloc)
{
	time64_t now = ktime_get_real_seconds();

	return tloc && copy_to_user(tloc, &now, sizeof(now)) ? -EFAULT : now;
}

SYSCALL_DEFINE2(gettimeofday, struct __kernel_old_timeval __user *, tv, struct timezone __user *,
		tz)
{
	struct timespec64 ts;

	ktime_get_real_ts64(&ts);
	ts.tv_nsec /= NSEC_PER_USEC;
	return tv ? put_timespec64(&ts, tv) : 0;
}

SYSCALL_DEFINE2(clock_gettime, const clockid_t, which_clock, struct __kernel_timespec __user *, tp)
{
	struct timespec64 ts;

	switch (which_clock) {
	case CLOCK_REALTIME:  ktime_get_real_ts64(&ts); break;
	case CLOCK_MONOTONIC: ktime_get_ts64(&ts); break;
	default:              return -EINVAL;
	}
	return put_timespec64(&ts, tp);
}
