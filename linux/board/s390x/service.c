// SPDX-License-Identifier: GPL-2.0-or-later
/* What the machine tells of itself: facilities, STSI, and the service processor with its console. */
#include "s390x.h"

#define FACILITIES_AT 0xc8 /* in the lowcore */
/* texts in EBCDIC */
#define SPACE 0x40
#define NAME "\xd2\xd7\xc6\xe2" /* KPFS */
#define MACHINE_TYPE "\xf2\xf9\xf6\xf4" /* 2964: a z13, of which libunicorn's model has most */
#define KVM_LINUX "\xd2\xe5\xd4\x61\xd3\x89\x95\xa4\xa7"
#define CAPABILITY 1000
#define BLOCK 4096

/* requests of the service processor, and its answers */
#define READ_SCP 0x00020001u
#define READ_SCP_FORCED 0x00120001u
#define READ_CPU 0x00010001u
#define WRITE_EVENT_DATA 0x00760005u
#define READ_EVENT_DATA 0x00770005u
#define WRITE_EVENT_MASK 0x00780005u
#define DONE 0x0010
#define TAKEN 0x0020
#define UNKNOWN 0x01f0
#define TOO_SHORT 0x0300
#define NO_EVENTS 0x62f0
#define BAD_EVENT 0x40f0
#define VT220 0x1a            /* a kind of event: text of ASCII */
#define VT220_MASK 0x00000040 /* that kind */
#define SCP_INFO_SIZE 144
#define CPU_ENTRY_SIZE 16
#define HAS_CPU_INFO 0x0800000000000000ull

#define YIELD 0x44 /* numbers of diag */
#define YIELD_TO 0x9c
#define HYPERCALL 0x500
#define IPL 0x308
#define IPL_STORE 6
#define NO_PARAMETERS 0x102
#define NOT_SUPPORTED (-95ull)

IMPORT(void, list_facilities, s390_get_feat_block, (uc_engine u, int type, u8 *bits));
IMPORT(void, store_word, cpu_stq_data_ra_s390x, (state_t * s, u64 addr, u64 value, uintptr_t from));

/* Find the facilities of libunicorn's model; return how many doublewords have any. */
static u32 facilities(struct board *b, u64 *found)
{
	u32 count = 32;

	__builtin_memset(found, 0, 32 * sizeof(*found));
	list_facilities(engine(b), 0, (u8 *)found);
	while (count > 1 && !found[count - 1])
		count--;
	return count;
}

static void store_facilities(state_t *s)
{
	u64 found[32];

	facilities(board_of(s), found);
	__builtin_memcpy((void *)(lowcore(board_of(s)) + FACILITIES_AT), found, 4);
}

static u32 store_facilities_extended(state_t *s, u64 addr)
{
	u64 found[32], room = (s->r[0] & 0xff) + 1;
	u32 count = facilities(board_of(s), found);

	for (u32 i = 0; i < room && i < count; i++)
		store_word(s, addr + 8 * i, __builtin_bswap64(found[i]), CALLER);
	s->r[0] = (s->r[0] & ~0xffull) | (count - 1);
	return room >= count ? 0 : 3;
}

/* Write text, which is in EBCDIC, padded with its spaces. */
static void put_text(u8 *at, const char *text, int size)
{
	for (int i = 0; i < size; i++)
		at[i] = *text ? *text++ : SPACE;
}

static void put_count(u8 *at, u64 count)
{
	put16((uintptr_t)at, count);
	put16((uintptr_t)at + 2, count);
}

/* Fill the block of a level; return false if there is none. Kernel: struct sysinfo_1_1_1 and others */
static bool describe(const struct board *b, u8 *s, u32 level, u32 first, u32 second)
{
	if (level == 1 && first == 1 && second == 1) {
		put_text(s + 32, NAME, 16);
		put_text(s + 48, MACHINE_TYPE, 4);
		put_text(s + 64, NAME, 40);
	} else if (first != 2 || (second != 2 && (level == 3 || second != 1))) {
		return false;
	} else if (level == 1 && second == 2) {
		put32((uintptr_t)s + 32, CAPABILITY);
		put_count(s + 36, b->nr_cpus);
	} else if (second == 2) {
		s[level == 3 ? 31 : 35] = level == 3 ? 1 : 0x80;
		put_count(s + 36, b->nr_cpus);
		put_text(s + 44, NAME, 8);
		put32((uintptr_t)s + 52, CAPABILITY);
		if (level == 3) /* then the kernel has a console of ASCII */
			put_text(s + 56, KVM_LINUX, 16);
	}
	return true;
}

static u32 store_system(state_t *s, u64 at, u64 r0, u64 r1)
{
	u32 level = r0 >> 28 & 15;
	u8 block[BLOCK];

	if (!level) {
		s->r[0] = 3 << 28;
		return 0;
	}
	__builtin_memset(block, 0, sizeof(block));
	if (level > 3 || !describe(board_of(s), block, level, r0 & 0xff, r1 & 0xffff))
		return 3;
	for (int i = 0; i < BLOCK; i += 8)
		store_word(s, at + i, get64((uintptr_t)block + i), CALLER);
	return 0;
}

/* The kernel waits without end for the answer to an event of another kind that is taken. */
static u16 write_event(struct board *b, u64 at, u32 size)
{
	u32 length;

	for (u32 i = 8; i + 6 <= size; i += length) {
		length = get16(at + i);
		if (length < 6 || i + length > size)
			break;
		if (*(u8 *)(at + i + 2) != VT220)
			return BAD_EVENT;
		for (u32 k = 6; k < length; k++)
			print(b, *(u8 *)(at + i + k));
		*(u8 *)(at + i + 3) |= 0x80;
	}
	return TAKEN;
}

static void put_cpus(const struct board *b, u64 at)
{
	for (u64 i = 0; i < b->nr_cpus; i++)
		*(u8 *)(at + CPU_ENTRY_SIZE * i) = i;
}

static u16 answer(struct board *b, u64 at, u64 command, u32 size)
{
	u32 length;

	switch (command) {
	case READ_SCP:
	case READ_SCP_FORCED:
		if (size < SCP_INFO_SIZE + CPU_ENTRY_SIZE * MAX_CPUS)
			return TOO_SHORT;
		__builtin_memset((void *)(at + 8), 0, size - 8);
		put16(at + 8, b->ram_size >> 20);
		*(u8 *)(at + 10) = 1; /* MiB in an increment */
		put16(at + 16, b->nr_cpus);
		put16(at + 18, SCP_INFO_SIZE);
		put_text((u8 *)at + 24, "", 8);
		put64(at + 48, HAS_CPU_INFO);
		put16(at + 120, b->nr_cpus - 1);
		put_cpus(b, at + SCP_INFO_SIZE);
		return DONE;
	case READ_CPU:
		__builtin_memset((void *)(at + 8), 0, size - 8);
		put16(at + 8, b->nr_cpus);
		put16(at + 10, 16);
		put16(at + 14, 16 + CPU_ENTRY_SIZE * b->nr_cpus);
		put_cpus(b, at + 16);
		return DONE;
	case WRITE_EVENT_DATA: return write_event(b, at, size);
	case READ_EVENT_DATA:  return NO_EVENTS;
	case WRITE_EVENT_MASK:
		length = get16(at + 10);
		if (length != 4 || size < 12 + 4 * 4)
			return TOO_SHORT;
		put32(at + 12 + 2 * 4, VT220_MASK);
		put32(at + 12 + 3 * 4, VT220_MASK);
		return TAKEN;
	}
	return UNKNOWN;
}

static u32 call_service(state_t *s, u64 at, u64 command)
{
	struct board *b = board_of(s);
	u64 place = absolute(b, at & 0x7ffffff8);
	u32 size;

	if (place > b->ram_size - BLOCK)
		return 3;
	size = get16(b->ram + place);
	if (size < 8 || size > BLOCK)
		size = 8;
	put16(b->ram + place + 6, answer(b, b->ram + place, command & 0xffffffff, size));
	own(this_cpu(b))->service = at & 0x7ffffff8;
	set_due(b);
	return 0;
}

static void diagnose(state_t *s, u32 r1, u32 r3, u32 number)
{
	switch (number) {
	case YIELD:
	case YIELD_TO:  return;
	case HYPERCALL: s->r[2] = NOT_SUPPORTED; return;
	case IPL:
		if (s->r[r3] >= IPL_STORE - 1) {
			s->r[r1 + 1] = NO_PARAMETERS;
			return;
		}
		turn_off(board_of(s), this_cpu(board_of(s))); /* reboot and power-off */
		return;
	}
	raise(s, PGM_SPECIFICATION, CALLER);
}

REPLACE(helper_stfl, store_facilities);
REPLACE(helper_stfle, store_facilities_extended);
REPLACE(helper_stsi, store_system);
REPLACE(helper_servc, call_service);
REPLACE(helper_diag, diagnose);
