/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* A count of the blocks of code that an engine of libunicorn begins. */
#include <stdbool.h>
#include <stdint.h>

struct block_counter {
	uint64_t blocks;         /* begun so far */
	uint64_t look;           /* call at_look before block number look, and forget this */
	void (*at_look)(void *); /* may set look anew, and stop the engine before the block */
	void *argument;          /* of at_look */
	void (*leave)(void *engine, uint32_t delayed); /* set by a hook: see stops.c */
};
