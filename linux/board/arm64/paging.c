// SPDX-License-Identifier: GPL-2.0-or-later
/* The page tables of arm64, with pages of 4 KiB and addresses of 48 bits. */
#include "arm64.h"

#define DESCRIPTOR_VALID 1
#define DESCRIPTOR_TABLE 2
#define DESCRIPTOR_ADDRESS 0x0000fffffffff000ull
#define UPPER_HALF (1ull << 55)

u64 board_walk(const struct board *b, u64 addr)
{
	u64 root = b->state + (addr & UPPER_HALF ? ARM64_STATE_TTBR1 : ARM64_STATE_TTBR0);
	u64 table = FIELD(u64, root) & DESCRIPTOR_ADDRESS;

	for (int shift = 39; shift >= 12; shift -= 9) {
		u64 entry, mask = (1ull << shift) - 1;

		if (table > b->ram_size - 4096)
			return NEVER;
		entry = *(u64 *)(b->ram + table + 8 * (addr >> shift & 511));
		if (!(entry & DESCRIPTOR_VALID))
			return NEVER;
		if (shift > 12 && !(entry & DESCRIPTOR_TABLE))
			return (entry & DESCRIPTOR_ADDRESS & ~mask) | (addr & mask);
		table = entry & DESCRIPTOR_ADDRESS;
	}
	return table | (addr & 4095);
}
