// SPDX-License-Identifier: GPL-2.0-or-later
/* The hook for blocks of covered text; coverage.h tells how they are counted. */
#include "coverage.h"

#define API __attribute__((visibility("default")))

/* Count a block. Called by libunicorn, for a hook that is bounded to the text. */
API void coverage_block(void *engine, uint64_t addr, uint32_t size, struct covered_text *text)
{
	uint64_t at = addr - text->first, left = text->size - at;
	struct coverage *all = text->all;

	(void)engine;
	if (!text->changes)
		return;
	if (size > left)
		size = left;
	text->changes[at]++;
	text->changes[at + size]--;
	all->changes = text->changes;
	all->origin = text->first;
	all->first = addr;
	all->end = addr + size;
}

/* See coverage_left(). For engines that Python runs. */
API void coverage_stands(struct coverage *all, uint64_t addr)
{
	coverage_left(all, addr);
}
