// SPDX-License-Identifier: GPL-2.0-or-later
/* The page tables of x86-64. */
#include "x86.h"

#define PTE_PRESENT 1
#define PTE_WRITE 2
#define PTE_LARGE 0x80
#define PTE_ADDRESS 0x000ffffffffff000ull

/* Return an address's offset in RAM, or NEVER. need: bits that all entries must have. */
static u64 walk(const struct board *b, u64 addr, u64 need)
{
	u64 table = state(b)->cr[3] & PTE_ADDRESS;

	for (int shift = 39; shift >= 12; shift -= 9) {
		u64 entry, mask = (1ull << shift) - 1;

		if (table > b->ram_size - 4096)
			return NEVER;
		entry = *(u64 *)(b->ram + table + 8 * (addr >> shift & 511));
		if (~entry & need)
			return NEVER;
		if (shift < 39 && shift > 12 && entry & PTE_LARGE)
			return (entry & PTE_ADDRESS & ~mask) | (addr & mask);
		table = entry & PTE_ADDRESS;
	}
	return table | (addr & 4095);
}

u64 board_walk(const struct board *b, u64 addr)
{
	return walk(b, addr, PTE_PRESENT);
}

/*
 * Write to a stack, as the processor itself; false: the kernel's code could not. Linux returns to
 * programs with stacks of 16 bits from one that must not be written to.
 */
bool push_word(struct board *b, u64 addr, u64 value)
{
	u64 at = walk(b, addr, PTE_PRESENT | PTE_WRITE);

	if (at > b->ram_size - 8 || (addr & 4095) > 4096 - 8)
		return false;
	*(u64 *)(b->ram + at) = value;
	return true;
}

/* All addresses are in one space. */
u64 board_walk_in(const struct board *b, u64 addr, int space)
{
	(void)space;
	return board_walk(b, addr);
}
