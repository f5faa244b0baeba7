/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * The background works in bursts, at multiples of this, of so many rounds each: what the
 * first round costs the host, whose caches have gone cold, the second does not.
 */
#define BURST_JIFFIES 125
#define BURST_ROUNDS 2

/* Start the background traffic; inet_init() comes first. */
void packet_loop_init(void);
