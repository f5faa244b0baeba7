/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/kernel.h>
extern unsigned long volatile jiffies;
extern u64 jiffies_64;
#define INITIAL_JIFFIES ((unsigned long)(unsigned int)(-300 * HZ))
#define time_after(a, b) ((long)((b) - (a)) < 0)
#define time_before(a, b) time_after(b, a)
#define time_after_eq(a, b) ((long)((a) - (b)) >= 0)
#define time_before_eq(a, b) time_after_eq(b, a)
u64 get_jiffies_64(void);
unsigned long msecs_to_jiffies(unsigned int m);
unsigned int jiffies_to_msecs(unsigned long j);
unsigned long usecs_to_jiffies(unsigned int u);
unsigned long nsecs_to_jiffies(u64 n);
