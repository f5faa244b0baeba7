// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Hooks of libunicorn that are added while the kernel runs.
 *
 * Blocks that call on_block(): all, where libunicorn does not count, and else those at which the
 * board may stop. libunicorn decides that for each block when it translates it.
 */
#include "internal.h"

static bool add_hook(struct board *b, u64 first, u64 last)
{
	size_t hook;

	return !uc.hook_add(engine(b), &hook, UC_HOOK_BLOCK, (void *)(uintptr_t)b->on_block, b,
			    first, last);
}

static bool on_fetch(uc_engine u, int type, u64 addr, int size, int64_t value, void *data)
{
	(void)u, (void)type, (void)addr, (void)size, (void)value, (void)data;
	return false;
}

/*
 * Have libunicorn check every store against the code that it has translated, which is slow. The
 * presence of this hook does that; it never fires. emulator/track.c needs no such hook.
 */
bool hook_stores(struct board *b)
{
	size_t hook;

	return !uc.hook_add(engine(b), &hook, UC_HOOK_MEM_FETCH_PROT, on_fetch, b, 0,
			    b->ram_size - 1);
}

/* Have all blocks call on_block(), which works with and without a count by libunicorn. */
bool hook_all(struct board *b)
{
	return add_hook(b, 1, 0);
}

/* Have a function called with the number of each exception that libunicorn reports. */
bool hook_exceptions(struct board *b, void (*function)(uc_engine, u32, void *))
{
	size_t hook;

	return !uc.hook_add(engine(b), &hook, UC_HOOK_INTR, function, b, 1, 0);
}

/*
 * Have the block at an address call on_block(), and drop what is translated of it. True: all code
 * has to go, as it is not known where that one is, or all blocks are hooked now.
 */
bool hook_block(struct board *b, u64 addr)
{
	u64 at;

	if (!b->counts || !addr || addr == NEVER || b->nr_hooked > NR_HOOKED)
		return false;
	for (u64 i = 0; i < b->nr_hooked; i++)
		if (b->hooked[i] == addr)
			return false;
	if (b->nr_hooked++ == NR_HOOKED) {
		hook_all(b);
		return true;
	}
	b->hooked[b->nr_hooked - 1] = addr;
	add_hook(b, addr, addr + local_entry);
	at = board_walk(b, addr);
	if (at >= b->ram_size)
		return true;
	drop_code(b, at, 1 + local_entry);
	return false;
}
