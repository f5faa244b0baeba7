// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Tell a board of indirect branches, at the cost of a look into a table for each.
 *
 * A hook for instructions would have to be in all of a kernel's code, which makes it four times slower.
 * But a block that ends with an indirect branch calls helper_lookup_tb_ptr(), as do those that end with a
 * return: see search.c. Where it was called tells the block, and the block's last instruction tells
 * which of these it was. That is found out once for each place, and kept till libunicorn drops all
 * blocks.
 */
#include "branches.h"
#include "originals.h"

static struct block *(*block_at)(void *translator, uintptr_t code);

/* Called before the next block is looked for. caller: where, in the code of the last one. */
void branches_look(struct engine *e, uintptr_t caller)
{
	const struct block_counter *c = e->counter;
	struct branch_site *site =
		&c->branches[caller * 0x9e3779b97f4a7c15ull >> (64 - BRANCH_SITE_BITS)];

	if (site->caller != caller || site->age != e->dropped_all) {
		void *translator = AT(void *, e->engine, ENGINE_TRANSLATOR);
		const struct block *block = block_at(translator, caller - 1);

		*site = (struct branch_site){ caller, e->dropped_all, 0 };
		if (block)
			site->from = c->branch_of(c->argument, block->pc, block->size);
	}
	if (site->from)
		c->at_branch(c->argument, site->from);
}

ORIGINALS(ORIGINAL("tcg_tb_lookup_x86_64", block_at));
