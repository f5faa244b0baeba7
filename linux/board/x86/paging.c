// SPDX-License-Identifier: GPL-2.0-or-later
/* The page tables of x86-64, and those of i386: of two levels, or of three with PAE. */
#include "x86.h"

#define PTE_PRESENT 1
#define PTE_WRITE 2
#define PTE_LARGE 0x80
#define PTE_ADDRESS 0x000ffffffffff000ull

#if BITS == 32
#define CR0_PAGED (1ull << 31)
#define CR4_PAE 0x20

static u64 entry(const struct board *b, u64 at, int size)
{
	if (at > b->ram_size - 8)
		return 0;
	return size == 8 ? *(u64 *)(b->ram + at) : *(u32 *)(b->ram + at);
}

/* Return an address's offset in RAM, or NEVER. need: bits that entries must have. */
static u64 walk(const struct board *b, u64 addr, u64 need)
{
	const struct x86_state *s = state(b);
	bool pae = s->cr[4] & CR4_PAE;
	int size = pae ? 8 : 4, bits = pae ? 9 : 10;
	u64 table = s->cr[3] & (pae ? 0xffffffe0 : 0xfffff000);

	addr = (u32)addr;
	if (!(s->cr[0] & CR0_PAGED))
		return addr;
	for (int shift = 12 + (pae ? 2 : 1) * bits; shift >= 12; shift -= bits) {
		u64 mask = (1ull << shift) - 1;
		u64 e = entry(b, table + size * (addr >> shift & ((1 << bits) - 1)), size);

		/* the first of three levels has no rights */
		if (~e & (shift < 30 ? need : PTE_PRESENT))
			return NEVER;
		if (shift > 12 && shift < 30 && e & PTE_LARGE)
			return (e & PTE_ADDRESS & ~mask) | (addr & mask);
		table = e & PTE_ADDRESS;
	}
	return table | (addr & 4095);
}
#else
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
#endif

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

	if (at > b->ram_size - BITS / 8 || (addr & 4095) > 4096 - BITS / 8)
		return false;
	if (BITS == 32)
		*(u32 *)(b->ram + at) = value;
	else
		*(u64 *)(b->ram + at) = value;
	return true;
}

/* All addresses are in one space. */
u64 board_walk_in(const struct board *b, u64 addr, int space)
{
	(void)space;
	return board_walk(b, addr);
}
