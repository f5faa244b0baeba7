/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* The hypercalls of an engine that need no Python. */
#include "../../emulator/blocks.h"

#define NR_PORTS 256

/* the ways of a hypercall */
#define HYPERCALL_SERVE 0 /* by Python */
#define HYPERCALL_END 1   /* end the run */
#define HYPERCALL_CLOCK 2 /* bring the clock word up to date */

struct host_time { int64_t sec, nsec; };

struct hypercalls {
	void (*serve)(void *engine, uint32_t port, int size, uint32_t value);
	void (*emu_stop)(void *engine); /* uc_emu_stop() */
	int (*clock_gettime)(int clock, struct host_time *time);
	struct block_counter *counter;
	uint64_t *clock; /* the clock word, in ns */
	uint64_t origin; /* the host's time at which it is 0 */
	uint64_t step;   /* of a clock that is virtual; 0: it is the host's */
	uint64_t moves;  /* the value with which such a clock moves on by a step */
	uint64_t limit;  /* its last time */
	uint64_t ended;  /* the hypercall that has ended the run; 0: none */
	uint64_t value;  /* its value */
	uint8_t ways[NR_PORTS];
};

/* Bring the clock word up to date. why: as of the hypercall; moves makes a virtual clock step. */
void hypercalls_look_at_clock(const struct hypercalls *h, uint32_t why);
