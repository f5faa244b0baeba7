// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Code that is written through one mapping of its page and run through another is not seen
 * by libunicorn. The kernel does so in few functions: when one returns, all translations go.
 *
 * Several of them may be under way, each in a task of its own, on whatever processor.
 */
#include "internal.h"

static u64 bit(u64 addr)
{
	return addr ? 1ull << (addr >> 4 & 63) : 0;
}

/* What to look out for, from now on. */
void watch(struct board *b)
{
	b->watched = 0;
	for (int i = 0; i < NR_FLUSHERS; i++)
		b->watched |= bit(b->flushers[i]);
	for (int i = 0; i < NR_RETURNS; i++)
		b->watched |= bit(b->returns[i]);
}

static void expect_return(struct board *b, u64 addr)
{
	int unused = 0;

	for (int i = 0; i < NR_RETURNS; i++) {
		if (b->returns[i] == addr) {
			b->return_counts[i]++;
			return;
		}
		if (!b->returns[i])
			unused = i;
	}
	b->returns[unused] = addr;
	b->return_counts[unused] = 1;
	watch(b);
}

/* At a block that may be the begin of a flusher, or what it returns to; it is run next. */
void watch_flusher(struct board *b, u64 addr)
{
	for (int i = 0; i < NR_RETURNS; i++) {
		if (b->returns[i] == addr) {
			if (!--b->return_counts[i])
				b->returns[i] = 0;
			watch(b);
			b->flushed_at = addr;
			board_stop(b, STOP_FLUSH, addr);
			return;
		}
	}
	for (int i = 0; i < NR_FLUSHERS; i++)
		if (b->flushers[i] == addr)
			expect_return(b, read_word(b, state(b)->regs[RSP]));
}
