// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Addresses of mips64. The kernel refills the processor's TLB, which libunicorn has; the board walks
 * the kernel's tables only for others: three levels, of 10, 9 and 9 bits.
 */
#include "mips64.h"

#define SEGMENT_BITS 29
#define SEGMENT_0 0x7fffffffcull /* unmapped, the first 512 MiB; and likewise, not cached */
#define SEGMENT_1 0x7fffffffdull
#define IS_PHYSICAL(addr) ((addr) >> 62 == 2)
#define PHYSICAL 0x07ffffffffffffffull
#define PROGRAM_BITS 40
#define TABLE_OF_CONTEXT(context) ((context) >> 23 << 12)
#define PRESENT 1
#define FRAME(entry) (((entry) >> 14 << 12) & 0xffffffffffffull)
#define ONE_OF_RANDOM 1103515245u

static fill_tlb *original_fill;
static void (*original_set_page)(void *processor, u64 addr, u64 at, int rights, int mode, u64 size);

static u64 entry_at(const struct board *b, u64 at)
{
	return at <= b->ram_size - 8 ? *(const u64 *)(uintptr_t)(b->ram + at) : 0;
}

u64 board_walk(const struct board *b, u64 addr)
{
	u64 table = TABLE_OF_CONTEXT(state(b)->context) & PHYSICAL, entry;

	if (addr >> SEGMENT_BITS == SEGMENT_0 || addr >> SEGMENT_BITS == SEGMENT_1)
		return addr & ((1ull << SEGMENT_BITS) - 1);
	if (IS_PHYSICAL(addr))
		return addr & PHYSICAL;
	if (addr >> PROGRAM_BITS) {
		if (!devices(b)->kernel_table)
			return NEVER;
		table = devices(b)->kernel_table;
	}
	entry = entry_at(b, table + 8 * (addr >> 30 & 1023));
	for (int shift = 21; shift >= 12; shift -= 9) {
		if (!IS_PHYSICAL(entry)) /* an empty table is in the kernel's image */
			return NEVER;
		entry = entry_at(b, (entry & PHYSICAL) + 8 * (addr >> shift & 511));
	}
	return entry & PRESENT ? FRAME(entry) | (addr & (page_size - 1)) : NEVER;
}

/* Return an entry of the TLB to replace, never the same one twice. libunicorn's are no part of its state. */
static u32 next_random(state_t *s)
{
	struct mips64_devices *d = devices(board_of(s));
	u32 entry;

	do {
		d->random = (u32)(ONE_OF_RANDOM * d->random + 12345);
		entry = (d->random >> 16) % AT(u32, s->tlb, 0);
	} while (entry < s->wired || entry == d->last_random);
	d->last_random = entry;
	return entry;
}

/*
 * Programs may execute whatever they may read, so that libunicorn would check all stores to such pages.
 * A page that is only data is no code, so that stores to it are soon fast.
 */
static bool fill(void *cpu, u64 addr, int size, int access, int mode, bool probe, uintptr_t from)
{
	struct board *b = board_of(AT(state_t *, cpu, STATE));

	if (b)
		devices(b)->fetches = access == FETCH;
	return original_fill(cpu, addr, size, access, mode, probe, from);
}

static void set_page(void *cpu, u64 addr, u64 at, int rights, int mode, u64 size)
{
	struct board *b = board_of(AT(state_t *, cpu, STATE));

	if (b && !devices(b)->fetches)
		rights &= ~CAN_EXECUTE;
	original_set_page(cpu, addr, at, rights, mode, size);
}

REPLACE(cpu_mips_get_random_mips64el, next_random);
REPLACE_TOO(mips_cpu_tlb_fill_mips64el, fill, original_fill);
REPLACE_TOO(tlb_set_page_mips64el, set_page, original_set_page);
