// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Translate blocks of code before they run.
 *
 * libunicorn translates a block when it first runs, which is most of what a short program costs.
 * A board can list what it has translated. Another board of the same kernel, of which it is a
 * fork, then has libunicorn translate the blocks that have the same code at the same place. The
 * guest runs nothing meanwhile, and nothing in it changes. What is translated so is as valid as
 * all else: libunicorn finds it by its place in RAM, and drops it when that is written to.
 *
 * Blocks of programs lie at virtual addresses that only the program has. So these are put into
 * libunicorn's cache of translated addresses for the while, and then all is dropped from it.
 */
#include "internal.h"

#define READ_AND_EXECUTE 5
#define FLAGS_OF_KIND 0xffffff /* what remains of the second flags is the processor's number */
#define PARALLEL 0x80000
#define NO_PAGE NEVER

struct list {
	struct board *board;
	u64 base; /* libunicorn's address of RAM */
	u64 skip;
	u64 room;
	u64 count;
	struct translation *rows;
	u8 *known; /* a bit for each byte of RAM: a block begins there */
};

static u64 in_page(u64 addr)
{
	return addr & (page_size - 1);
}

/* Return a digest of a block's code, as it is in RAM. The places are valid. */
static u32 sum(const struct board *b, const struct translation *t)
{
	u32 value = 2166136261u;

	for (u64 i = 0; i < t->size; i++) {
		u64 at = in_page(t->pc) + i, page = t->pages[at / page_size];

		value = (value ^ ((const u8 *)(uintptr_t)b->ram)[page + in_page(at)]) * 16777619u;
	}
	return value;
}

/* Return whether a block lies in RAM as a whole. */
static bool is_valid(const struct board *b, const struct translation *t)
{
	u64 end = in_page(t->pc) + t->size;

	return t->pages[0] < b->ram_size && end <= 2 * page_size &&
	       (end <= page_size || t->pages[1] < b->ram_size);
}

static int add_row(const void *key, const struct block *block, struct list *list)
{
	struct translation *t = &list->rows[list->count];
	u64 at = block->pages[0] - list->base + in_page(block->pc);
	u8 bit = 1 << (at & 7), *byte = &list->known[at >> 3];
	bool is_new = !list->skip;

	(void)key;
	list->skip -= !is_new;
	if (at >= list->board->ram_size || block->cs_base || block->flags & not_ahead ||
	    block->kind & FLAGS_OF_KIND & ~PARALLEL || *byte & bit)
		return 0;
	*byte |= bit;
	if (!is_new)
		return 0;
	t->pc = block->pc;
	t->flags = block->flags;
	t->kind = block->kind & PARALLEL;
	t->size = block->size;
	for (int i = 0; i < 2; i++)
		t->pages[i] = block->pages[i] == NO_PAGE ? NO_PAGE : block->pages[i] - list->base;
	if (!is_valid(list->board, t))
		return 0;
	t->sum = sum(list->board, t);
	return ++list->count == list->room;
}

/* Return how many blocks are translated. */
__attribute__((visibility("default"))) u64 board_translated(const struct board *b)
{
	return uc.count_blocks(translator(b));
}

/*
 * List the blocks that have been translated since there were so many, unless all were dropped
 * since. Return the count of rows, for which there is room. known: zeroes, a bit for each byte of
 * RAM. Programs may have other addresses each time: of the blocks at one place only the first one
 * is listed, so that their number has a bound.
 */
__attribute__((visibility("default"))) u64 board_list(struct board *b, u64 since, u8 *known,
						      struct translation *rows, u64 room)
{
	struct list list = { .board = b, .skip = since, .room = room, .rows = rows, .known = known };

	list.base = uc.ram_address(engine(b), (void *)(uintptr_t)b->ram);
	if (room)
		uc.each_block(translator(b), add_row, &list);
	return list.count;
}

/* Context: the engine does not run. */
__attribute__((visibility("default"))) void
board_translate_ahead(struct board *b, const struct translation *rows, u64 count)
{
	void *cpu = processor(b);
	u32 flags = swap_flags(b, 0);

	for (u64 i = 0; i < count; i++) {
		const struct translation *t = &rows[i];

		if (!is_valid(b, t) || sum(b, t) != t->sum)
			continue;
		swap_flags(b, t->flags);
		/* without the second page a fault would leave this function, and not return */
		for (int page = 0; page < 2; page++) {
			u64 at = t->pages[page] < b->ram_size ? t->pages[page] : t->pages[0];

			for (u32 mode = 0; mode < nr_modes; mode++)
				uc.map_page(cpu, t->pc - in_page(t->pc) + page * page_size, at,
					    READ_AND_EXECUTE, mode, page_size);
		}
		uc.translate(cpu, t->pc, 0, t->flags, t->kind);
	}
	swap_flags(b, flags);
	uc.ctl(engine(b), UC_CTL_TLB_FLUSH);
}
