// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Functions of the kernel that the board looks out for.
 *
 * Flushers: code that is written through one mapping of its page and run through another is
 * not seen by libunicorn. The kernel does so in few functions: when one returns, all
 * translations go. Several of them may be under way, each in a task of its own, on whatever
 * processor.
 *
 * Calls: before those the host is asked.
 */
#include "internal.h"

static void add(struct board *b, u64 addr)
{
	if (addr)
		b->watched[addr >> 10 & (NR_WATCHED - 1)] |= 1ull << (addr >> 4 & 63);
}

/* What to look out for, from now on. */
void watch(struct board *b)
{
	for (int i = 0; i < NR_WATCHED; i++)
		b->watched[i] = 0;
	for (int i = 0; i < NR_FLUSHERS; i++)
		add(b, b->flushers[i]);
	for (int i = 0; i < NR_RETURNS; i++)
		add(b, b->returns[i]);
	for (int i = 0; i < NR_CALLS; i++)
		add(b, b->calls[i]);
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

/* Whether the host is to be asked before a function that is at its begin. */
static bool asks(struct board *b, int call)
{
	u64 at = b->call_zeros[call];

	return at == NEVER || !read_word(b, state(b)->regs[RDI] + at);
}

/* At a block that may be the begin of a function, or what it returns to; it is run next. */
void watch_block(struct board *b, u64 addr)
{
	if (b->asked_at == addr) {
		b->asked_at = 0;
		return;
	}
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
	for (int i = 0; i < NR_CALLS; i++) {
		if (b->calls[i] == addr && asks(b, i)) {
			b->asked_at = addr;
			board_stop(b, STOP_CALL, addr);
			return;
		}
	}
}
