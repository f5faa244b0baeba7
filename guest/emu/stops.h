/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Where and why an engine of libunicorn stops for a debugger. */
#include "blocks.h"

#define STOPPED_AT_PLACE 1
#define STOPPED_BY_STEP 2
#define STOPPED_BY_ACCESS 3

struct stops {
	void (*emu_stop)(void *engine); /* uc_emu_stop() */
	struct block_counter *counter;
	void (*leave)(void *engine, uint32_t delayed); /* see struct block_counter */
	uint64_t stepping;                             /* stop before each instruction */

	uint64_t why; /* STOPPED_*, 0 while it runs */
	uint64_t address;
	uint64_t block;    /* in which it has stopped */
	uint64_t resumed;  /* it goes on there: so many hooks are called again */
	uint64_t accessed; /* the watched access: its physical address, and watch */
	uint64_t watch;    /* number of the watch, 0: none */
};

struct place {
	struct stops *stops;
	uint64_t enabled;
};

struct watch {
	struct stops *stops;
	uint64_t number; /* from 1, 0: not enabled */
	uint64_t first;  /* physical addresses */
	uint64_t last;
};
