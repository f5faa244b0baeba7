// SPDX-License-Identifier: GPL-2.0-or-later
/* Time: Python keeps a word with the nanoseconds since boot. */
#include <kpfs/hypercall.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/sched.h>
#include "timekeeping.h"

static struct timekeeper {
	volatile unsigned long *clock;
	u64 step; /* added to a virtual clock by each look at it; 0: the clock is the host's */
	time64_t boot_seconds;
	u64 last_jiffies_update;
} tk_core;

u64 jiffies_64 __aligned(64) = INITIAL_JIFFIES;

void __init timekeeping_init(const struct kpfs_boot_params *params)
{
	tk_core.clock = (volatile unsigned long *)params->clock;
	tk_core.step = params->quiet ? CLOCK_LOOK_NSEC : 0;
	tk_core.boot_seconds = params->boot_time;
}

/* Read the clock. Between two turns of a CPU Python does not touch the word unless asked to. */
static inline u64 timekeeping_get_ns(const struct timekeeper *tk)
{
	if (tk->step)
		*tk->clock = min_t(u64, *tk->clock + tk->step, KTIME_MAX);
	else
		hypercall(HC_CLOCK, CLOCK_READ);
	return *tk->clock;
}

noinline ktime_t ktime_get(void)
{
	return timekeeping_get_ns(&tk_core);
}

ktime_t ktime_get_boottime(void)
{
	return timekeeping_get_ns(&tk_core);
}

noinline ktime_t ktime_get_real(void)
{
	return timekeeping_get_ns(&tk_core) + tk_core.boot_seconds * NSEC_PER_SEC;
}

time64_t ktime_get_seconds(void)
{
	return ktime_get_ns() / NSEC_PER_SEC;
}

time64_t ktime_get_real_seconds(void)
{
	return tk_core.boot_seconds + ktime_get_ns() / NSEC_PER_SEC;
}

noinline struct timespec64 ns_to_timespec64(s64 nsec)
{
	return (struct timespec64){ nsec / NSEC_PER_SEC, nsec % NSEC_PER_SEC };
}

void ktime_get_real_ts64(struct timespec64 *ts)
{
	*ts = ns_to_timespec64(ktime_get_real());
}

void ktime_get_ts64(struct timespec64 *ts)
{
	*ts = ns_to_timespec64(ktime_get());
}

noinline notrace u64 sched_clock(void)
{
	return tk_core.clock ? *tk_core.clock : 0;
}

notrace u64 local_clock(void)
{
	return sched_clock();
}

static void do_timer(unsigned long ticks)
{
	jiffies_64 += ticks;
}

/* Bring jiffies up to now. The CPUs take turns, so there is no race for it. */
void tick_do_update_jiffies64(ktime_t now)
{
	u64 ticks;

	if (now < tk_core.last_jiffies_update + TICK_NSEC)
		return;
	ticks = (now - tk_core.last_jiffies_update) / TICK_NSEC;
	tk_core.last_jiffies_update += ticks * TICK_NSEC;
	do_timer(ticks);
}

u64 get_jiffies_64(void)
{
	return jiffies_64;
}

/* Return the time at which jiffies became, or will become, j. */
ktime_t jiffies_to_ktime(unsigned long j)
{
	long ahead = j - jiffies;

	if (ahead >= KTIME_MAX / TICK_NSEC)
		return KTIME_MAX;
	return ktime_add_safe(tk_core.last_jiffies_update, ahead * TICK_NSEC);
}
