// SPDX-License-Identifier: GPL-2.0-or-later
/* Access the kernel's memory by virtual addresses, and addresses where there is none. */
#include "internal.h"

/* what loads r2 on ppc64, without the numbers */
#define ADDIS_R12_ADDI 0x384200003c4c0000ull
#define LIS_ADDI 0x384200003c400000ull

/* Return the host's address of a word, or NULL. The word may not cross a page. */
static u64 *word(struct board *b, u64 addr)
{
	u64 at = board_walk(b, addr);

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
	if (BITS == 32)
		return (u32)value;
	return is_big_endian ? __builtin_bswap64(value) : value;
}

u32 read_int(struct board *b, u64 addr)
{
	u64 word = read_word(b, addr);

	return is_big_endian ? word >> 32 : word;
}

/*
 * Return the function that a block begins, by either entry. On ppc64 callers who have r2 already
 * leave out the two instructions that load it.
 */
u64 function_at(struct board *b, u64 addr)
{
	u64 two = local_entry ? read_word(b, addr - local_entry) & 0xffff0000ffff0000ull : 0;

	return two == ADDIS_R12_ADDI || two == LIS_ADDI ? addr - local_entry : addr;
}

static void hear(struct board *b, u64 addr, u64 size)
{
	for (; size && b->debug_size < b->debug_limit; addr++, size--)
		((u8 *)(uintptr_t)b->debug)[b->debug_size++] =
			is_big_endian ? read_word(b, addr) >> 56 : read_word(b, addr);
}

/*
 * Before it shares memory with the host, the agent has an instruction of its own by which it says
 * something. Take that, and return true, if it stands at an address.
 */
bool hears(struct board *b, u64 addr, u32 insn)
{
	if (!b->debug_limit || read_int(b, addr) != insn)
		return false;
	hear(b, argument(b, 0), argument(b, 1));
	return true;
}

static u64 hole_read(uc_engine u, u64 offset, unsigned int size, void *data)
{
	struct board *b = data;

	(void)u, (void)size;
	b->strays++;
	b->stray_at = offset;
	return NEVER;
}

static void hole_write(uc_engine u, u64 offset, unsigned int size, u64 value, void *data)
{
	(void)value;
	hole_read(u, offset, size, data);
}

/* Let accesses to addresses without memory and devices read ones. */
bool map_hole(struct board *b, u64 begin, u64 end)
{
	return !uc.mmio_map(engine(b), begin, end - begin, hole_read, b, hole_write, b);
}

static u64 console_read(uc_engine u, u64 offset, unsigned int size, void *ready)
{
	(void)u, (void)offset, (void)size;
	return (uintptr_t)ready;
}

static void console_write(uc_engine u, u64 offset, unsigned int size, u64 value, void *data)
{
	(void)u, (void)size;
	if (!offset)
		print(data, value);
}

/* Print what is written at the begin of a device. ready: how its registers say that it can. */
bool map_console(struct board *b, u64 begin, u64 size, u64 ready)
{
	return !uc.mmio_map(engine(b), begin, size, console_read, (void *)(uintptr_t)ready,
			    console_write, b);
}

/* Drop what was translated from an offset in RAM. */
void drop_code(struct board *b, u64 at, u64 size)
{
	at += uc.ram_address(engine(b), (void *)(uintptr_t)b->ram);
	b->flushes++;
	uc.invalidate(engine(b), at, at + size);
}
