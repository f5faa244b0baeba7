// SPDX-License-Identifier: GPL-2.0-or-later
/* The page tables of riscv64: Sv39, Sv48 and Sv57. */
#include "riscv64.h"

#define MODE(satp) ((satp) >> 60)
#define MODE_SV39 8
#define FRAME_MASK 0xfffffffffffull
#define ENTRY_VALID 1
#define ENTRY_MAPS 0xe /* one that refers to a table has none of these rights */

u64 board_walk(const struct board *b, u64 addr)
{
	u64 satp = state(b)->satp, table = (satp & FRAME_MASK) << 12;

	if (!MODE(satp))
		return addr;
	for (int shift = 30 + 9 * (MODE(satp) - MODE_SV39); shift >= 12; shift -= 9) {
		u64 entry, mask = (1ull << shift) - 1;

		if (table > b->ram_size - 4096)
			return NEVER;
		entry = *(u64 *)(b->ram + table + 8 * (addr >> shift & 511));
		if (!(entry & ENTRY_VALID))
			return NEVER;
		table = (entry >> 10 & FRAME_MASK) << 12;
		if (entry & ENTRY_MAPS)
			return (table & ~mask) | (addr & mask);
	}
	return NEVER;
}
