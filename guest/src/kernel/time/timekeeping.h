/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <kpfs/abi.h>
#include <linux/ktime.h>
void timekeeping_init(const struct kpfs_boot_params *params);
void tick_do_update_jiffies64(ktime_t now);
ktime_t jiffies_to_ktime(unsigned long j);
