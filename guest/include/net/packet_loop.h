/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef _NET_PACKET_LOOP_H
#define _NET_PACKET_LOOP_H
/* The background works in bursts, at multiples of this. */
#define BURST_JIFFIES 60

/* Start the background traffic; inet_init() comes first. */
void packet_loop_init(void);
#endif
