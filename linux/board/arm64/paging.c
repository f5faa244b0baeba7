// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The page tables of arm64, with pages of 4 KiB and addresses of 48 bits, and those of armhf, with
 * short descriptors.
 */
#include "arm64.h"

#if BITS == 32
#define TABLE_OF(root) ((root) & ~0x3fffu) /* of 16 KiB, a word for each MiB */
#define MODULES 0xbf000000u /* from here on all tables agree, but for what only the kernel's has yet */
#define SECTION 2
#define SUPERSECTION (1u << 18)
#define SMALL_PAGE 2
#define KIND 3

static u32 entry(const struct board *b, u64 at)
{
	return at > b->ram_size - 4 ? 0 : *(u32 *)(b->ram + at);
}

u64 board_walk(const struct board *b, u64 addr)
{
	u32 a = addr, e;
	u64 root = b->state + (a >= MODULES ? ARM64_STATE_TTBR1 : ARM64_STATE_TTBR0);

	if (addr >> 32)
		return NEVER;
	e = entry(b, TABLE_OF(FIELD(u32, root)) + (a >> 20) * 4);
	if (e & SECTION)
		return e & SUPERSECTION ? (e & 0xff000000) | (a & 0xffffff) :
					  (e & 0xfff00000) | (a & 0xfffff);
	if (!(e & KIND))
		return NEVER;
	e = entry(b, (e & ~0x3ffu) + (a >> 12 & 255) * 4);
	if (e & SMALL_PAGE)
		return (e & ~0xfffu) | (a & 0xfff);
	return e & KIND ? (e & 0xffff0000) | (a & 0xffff) : NEVER;
}
#else
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
#endif
