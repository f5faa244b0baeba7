// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The functions of the kernel that the board watches.
 *
 * Flushers: libunicorn does not notice code that is written through one mapping of its page
 * and run through another. Only a few functions of the kernel do so. The arguments of most
 * tell where they write. What was translated from there is dropped before the function begins:
 * nobody runs the place until it returns. When one of the others returns, all translated code
 * is dropped, which takes as long as translating it again. Several of these may be under way,
 * in different tasks and on any processor.
 *
 * Programs may do so as well, by a file that they have mapped twice. Nothing tells when they
 * write. So from the moment when one maps code of a file and shares what it writes there,
 * libunicorn checks every store, which is slow.
 *
 * Calls: the board asks the host before it runs them.
 */
#include "internal.h"

#define PROT_EXEC 4
#define MAP_SHARED 1

/* Return whether all code has to be translated anew for it. */
static bool add(struct board *b, u64 addr)
{
	if (addr)
		b->watched[addr >> 10 & (NR_WATCHED - 1)] |= 1ull << (addr >> 4 & 63);
	return hook_block(b, addr);
}

/* Rebuild the filter of watched addresses. */
void watch(struct board *b)
{
	bool is_new = false;

	for (int i = 0; i < NR_WATCHED; i++)
		b->watched[i] = 0;
	for (int i = 0; i < NR_FLUSHERS; i++)
		is_new |= add(b, b->flushers[i]);
	is_new |= add(b, b->mapper);
	for (int i = 0; i < NR_RETURNS; i++)
		is_new |= add(b, b->returns[i]);
	for (int i = 0; i < NR_CALLS; i++)
		is_new |= add(b, b->calls[i]);
	if (is_new)
		uc.ctl(engine(b), UC_CTL_TB_FLUSH);
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
	hook_block(b, addr); /* its flusher runs: so the code is known */
	watch(b);
}

/* Return whether to ask the host before the function that begins here. */
static bool asks(struct board *b, int call)
{
	u64 at = b->call_zeros[call];

	return at == NEVER || !read_word(b, argument(b, 0) + at);
}

/* Drop what was translated from a range of addresses. Return whether all of it is known. */
static bool drop_range(struct board *b, u64 addr, u64 size)
{
	if (size > MAX_WRITTEN)
		return false;
	while (size) {
		u64 at = board_walk(b, addr), here = 4096 - (addr & 4095);

		if (here > size)
			here = size;
		if (at > b->ram_size - here)
			return false;
		drop_code(b, at, here);
		addr += here;
		size -= here;
	}
	return true;
}

/* Called where a flusher begins: drop what it will write. Return whether that is known. */
static bool drop_written(struct board *b, u64 writes)
{
	u64 first = argument(b, 0);

	switch (writes) {
	case WRITES_BYTES: return drop_range(b, first, argument(b, 2));
	case WRITES_PAGES: return drop_range(b, first & ~4095ull, (u64)(u32)argument(b, 1) << 12);
	case WRITES_INSN:  return drop_range(b, argument(b, 1), MAX_INSN) || true;
	}
	return false;
}

/*
 * The arguments are the file, the address, the length, and mmap()'s prot and flags. What nobody
 * can access yet becomes code by mprotect() later.
 */
static bool maps_shared_code(const struct board *b)
{
	u64 prot = argument(b, 3);

	return argument(b, 0) && argument(b, 4) & MAP_SHARED && (!prot || prot & PROT_EXEC);
}

/* Called at a block where a watched function may begin, or to which one may return. */
void watch_block(struct board *b, u64 addr)
{
	if (!addr) /* stands for none in these tables */
		return;
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
		if (b->flushers[i] == addr && !drop_written(b, b->writes[i]))
			expect_return(b, return_address(b));
	if (b->mapper == addr && !b->exact && maps_shared_code(b)) {
		b->exact = hook_stores(b);
		b->flushed_at = addr;
		board_stop(b, STOP_FLUSH, addr);
		return;
	}
	for (int i = 0; i < NR_CALLS; i++) {
		if (b->calls[i] == addr && asks(b, i)) {
			b->asked_at = addr;
			board_stop(b, STOP_CALL, addr);
			return;
		}
	}
}
