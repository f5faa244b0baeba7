/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Where and why an engine of libunicorn stops for a debugger. */
#include "blocks.h"

#define STOPPED_AT_PLACE 1
#define STOPPED_BY_STEP 2
#define STOPPED_BY_ACCESS 3
#define STOPPED_AT_TARGET 4

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

	/* an instruction of one block at which to stop, in a run that is repeated */
	uint64_t target;
	uint64_t target_block;
	uint64_t before; /* the last instruction that has begun, where all are hooked */
	uint64_t before_block;
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
