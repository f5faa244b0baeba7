/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* s390x: what the board keeps of a processor, and of all. */
#include "../board.h"

/* cpu.own. Clocks count 4096 in a microsecond, as the TOD clock does. */
struct s390x_cpu {
	u64 comparator;
	u64 timer_end; /* when its timer is 0 */
	u64 emergency; /* senders of emergency signals, as bits */
	u64 call;      /* the sender of an external call, plus 1; 0: none */
	u64 service;   /* the parameter of a service signal; 0: none */
	u64 enabled;   /* bits of CR0 */
	u64 prefix;    /* while it is off */
	u64 step;      /* STEP_*: the PSW has PER */
	u64 step_from; /* the address of the instruction */
	u64 step_block;
};

/* board.devices */
struct s390x_devices {
	u64 space;   /* the agent's (its CR1), once it shares the region */
	u64 primary; /* the space whose translations libunicorn has */
	u64 running;
};
