// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The functions of the kernel that the board watches.
 *
 * Flushers: libunicorn does not notice code that is written through one mapping of its page
 * and run through another. Only a few functions of the kernel do so: when one returns, all
 * translated code is dropped. Several may be under way, in different tasks and on any
 * processor.
 *
 * The function that copies an instruction to where a uprobe steps it does so too, at each hit.
 * So only what was translated from that place is dropped, before it begins: nobody runs the
 * place until it returns.
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

/* Return whether code has to be translated anew for it. */
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
	is_new |= add(b, b->uprobe_copier);
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
	/* its flusher runs: so all other code may stay */
	if (hook_block(b, addr))
		uc.ctl(engine(b), UC_CTL_TB_REMOVE_CACHE, addr, addr + 1);
	watch(b);
}

/* Return whether to ask the host before the function that begins here. */
static bool asks(struct board *b, int call)
{
	u64 at = b->call_zeros[call];

	return at == NEVER || !read_word(b, argument(b, 0) + at);
}

/* The second argument is where a program finds the instruction. */
static void drop_uprobes_copy(struct board *b)
{
	u64 at = board_walk(b, argument(b, 1));

	if (at < b->ram_size - MAX_INSN)
		drop_code(b, at, MAX_INSN);
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
		if (b->flushers[i] == addr)
			expect_return(b, return_address(b));
	if (b->uprobe_copier == addr)
		drop_uprobes_copy(b);
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
