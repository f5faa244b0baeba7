/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/sched.h>
#include <linux/timer.h>

static inline void usleep_range(unsigned long min, unsigned long max)
{
	usleep_range_state(min, max, TASK_UNINTERRUPTIBLE);
}
