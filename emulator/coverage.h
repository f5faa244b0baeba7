/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * How often each instruction of some text was begun, by the blocks that libunicorn begins.
 *
 * A block counts for all its bytes: one more where it begins, one less where it ends. The sum of
 * all changes up to a byte is how often that byte was run. So a block that is cut in two by a
 * breakpoint, or translated anew with another length, needs no care.
 *
 * A block that does not run to its end was counted for too much. libunicorn leaves one only where
 * an instruction faults, or where a run ends: its hook for a block comes before its look whether to
 * stop there. Then the address at which it stands is within the block that has begun last, and
 * coverage_left() takes the rest of that block back.
 */
#include <stdint.h>

struct coverage;

struct covered_text {
	uint64_t first;   /* address */
	uint64_t size;    /* in bytes */
	int64_t *changes; /* size + 1 of them; NULL: it is gone */
	struct coverage *all;
};

/* Of one engine: the last block that has begun within covered text. */
struct coverage {
	int64_t *changes; /* of the block's text */
	uint64_t first;   /* of the block, and behind it */
	uint64_t end;
	uint64_t origin; /* the text's first address */
};

/* The engine stands at an address, and may not have run the last block from there on. */
static inline void coverage_left(struct coverage *all, uint64_t addr)
{
	if (addr < all->first || addr >= all->end)
		return;
	all->changes[addr - all->origin]--;
	all->changes[all->end - all->origin]++;
	all->end = addr;
}
