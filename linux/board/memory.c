// SPDX-License-Identifier: GPL-2.0-or-later
/* Access the kernel's memory by virtual addresses, through its own page tables. */
#include "internal.h"

#define PTE_PRESENT 1
#define PTE_LARGE 0x80
#define PTE_ADDRESS 0x000ffffffffff000ull

u64 board_walk(const struct board *b, u64 cr3, u64 addr)
{
	u64 table = cr3 & PTE_ADDRESS;

	for (int shift = 39; shift >= 12; shift -= 9) {
		u64 entry, mask = (1ull << shift) - 1;

		if (table > b->ram_size - 4096)
			return NEVER;
		entry = *(u64 *)(b->ram + table + 8 * (addr >> shift & 511));
		if (!(entry & PTE_PRESENT))
			return NEVER;
		if (shift < 39 && shift > 12 && entry & PTE_LARGE)
			return (entry & PTE_ADDRESS & ~mask) | (addr & mask);
		table = entry & PTE_ADDRESS;
	}
	return table | (addr & 4095);
}

/* Return the host's address of a word, or NULL. The word may not cross a page. */
static u64 *word(struct board *b, u64 addr)
{
	u64 at = board_walk(b, state(b)->cr[3], addr);

	if (at > b->ram_size - 8 || (addr & 4095) > 4096 - 8) {
		b->strays++;
		b->stray_at = addr;
		return NULL;
	}
	return (u64 *)(b->ram + at);
}

u64 read_word(struct board *b, u64 addr)
{
	u64 low = addr & ~7ull, shift = (addr & 7) * 8;
	u64 *at = word(b, low);
	u64 value = at ? *at >> shift : 0;

	if (shift) {
		at = word(b, low + 8);
		value |= at ? *at << (64 - shift) : 0;
	}
	return value;
}

void write_word(struct board *b, u64 addr, u64 value)
{
	u64 *at = word(b, addr);

	if (at)
		*at = value;
}
