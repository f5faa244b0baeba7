// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Rows of instructions: what each accesses, and whether it calls.
 *
 * A pair of exclusive instructions is one access: the load has its row, as of an atomic instruction,
 * and the store has none. So no processor waits between the two, and none is made to try again.
 * Nothing is said of accesses with the rights of a program, and of vectors by their elements.
 */
#include "../search/looks.h"
#include "arm64.h"

#define ZERO 31 /* as an index, and as what is loaded; as a base it is the stack pointer */
#define SAVED 19 /* the first register that a function leaves as it was */
#define SP_EL0 0xd5384100u
#define TPIDR_EL1 0xd538d080u
#define TPIDR_EL2 0xd53cd040u

/* Return the bits from first to last as a signed number. */
static int64_t number(u32 word, int first, int last)
{
	return (int64_t)((u64)word << (63 - last)) >> (63 - last + first);
}

static u8 reg(u32 word, int first)
{
	return word >> first & 31;
}

static void access(struct insn *i, u32 word, u16 flags, u64 bytes, int64_t disp)
{
	i->flags |= flags;
	i->bytes = bytes;
	i->base = reg(word, 5);
	i->disp = disp;
	i->reg = reg(word, 0);
	if (i->base == SP && i->index == REG_NONE)
		i->flags |= INSN_ON_STACK;
}

#define ATOMIC (INSN_READS | INSN_WRITES | INSN_LOCKED)

/* A load or a store in a certain order is meant to meet others, as an atomic one is. */
static u16 ordered(bool loads)
{
	return (loads ? INSN_READS : INSN_WRITES) | INSN_LOCKED;
}

/* Exclusive and ordered accesses, and compare and swap. */
static void exclusive(struct insn *i, u32 word)
{
	bool loads = word >> 22 & 1, alone = word >> 23 & 1, other = word >> 21 & 1;
	int size = word >> 30;

	if (alone && !other)
		access(i, word, ordered(loads), 1 << size, 0);
	else if (alone) /* cas */
		access(i, word, ATOMIC, 1 << size, 0);
	else if (other && size < 2) /* casp */
		access(i, word, ATOMIC, 8 << size, 0);
	else if (loads)
		access(i, word, ATOMIC, (1 << size) << other, 0);
	if (alone && loads && !other)
		i->more = MORE_LOADS;
	else if (loads && (alone ? !(word >> 15 & 1) : word >> 15 & 1)) /* casa, ldaxr */
		i->more = MORE_ACQUIRES;
}

static void pair(struct insn *i, u32 word)
{
	bool vector = word >> 26 & 1;
	int kind = word >> 30, mode = word >> 23 & 3, scale = vector ? 2 + kind : 2 + (kind >> 1);

	if (kind == 3 || (kind == 1 && !vector && !(word >> 22 & 1)))
		return;
	access(i, word, word >> 22 & 1 ? INSN_READS : INSN_WRITES, 2 << scale,
	       mode == 1 ? 0 : number(word, 15, 21) * (1 << scale));
}

static void literal(struct insn *i, u32 word)
{
	bool vector = word >> 26 & 1;
	int kind = word >> 30;

	if (kind == 3)
		return;
	access(i, word, INSN_READS,
	       vector    ? 4 << kind :
	       kind == 1 ? 8 :
			   4,
	       number(word, 5, 23) * 4);
	i->base = REG_IP;
	i->flags &= ~INSN_ON_STACK;
}

/* Loads and stores of one register. */
static void single(struct insn *i, u32 word)
{
	bool vector = word >> 26 & 1, scaled = word >> 24 & 1, other = word >> 21 & 1;
	int size = word >> 30, kind = word >> 22 & 3, mode = word >> 10 & 3;
	bool loads = vector ? kind & 1 : kind != 0;
	int64_t disp = 0;

	if (!scaled && other && !mode && !vector) { /* atomic ones, and ldapr */
		bool acquires = word >> 15 & 1 && (word >> 12 & 7) == 4;

		access(i, word, acquires ? ordered(true) : ATOMIC, 1 << size, 0);
		i->more = acquires ? MORE_LOADS : 0;
		return;
	}
	if ((!scaled && (other ? mode != 2 : mode == 2)) || (!vector && size == 3 && kind == 2))
		return;
	if (vector)
		size |= (kind & 2) << 1;
	if (scaled) {
		disp = (word >> 10 & 4095) << size;
	} else if (other) {
		u32 extends = word >> 13 & 7; /* 2: of 32 bits; 6: of these, with a sign */

		i->index = reg(word, 16) == ZERO ? REG_NONE : reg(word, 16);
		i->scale = (word >> 12 & 1 ? 1 << size : 1) | (extends == 2 ? WORD_INDEX :
							       extends == 6 ? SIGNED_INDEX :
									      0);
	} else if (mode != 1) {
		disp = number(word, 12, 20);
	}
	access(i, word, loads ? INSN_READS : INSN_WRITES, 1 << size, disp);
	if (loads && !vector)
		i->more = MORE_LOADS;
}

static void load_or_store(struct insn *i, u32 word)
{
	switch (word >> 24 & 0x3f) {
	case 0x08: exclusive(i, word); break;
	case 0x18:
	case 0x1c: literal(i, word); break;
	case 0x28:
	case 0x29:
	case 0x2c:
	case 0x2d: pair(i, word); break;
	case 0x38:
	case 0x39:
	case 0x3c:
	case 0x3d: single(i, word); break;
	case 0x19:
		if (word & 0x200c00) /* else it is ordered, at a distance */
			break;
		access(i, word, ordered(word >> 22 & 3), 1 << (word >> 30), number(word, 12, 20));
		break;
	}
}

/* Branches, and what is beside them: returns and system registers. */
static void branch(struct insn *i, u32 word)
{
	if (word << 1 >> 27 == 5) { /* b and bl; counted from where the next one begins */
		i->flags = word >> 31 ? INSN_CALLS : INSN_TAIL;
		i->more = word >> 31 ? 0 : MORE_JUMPS;
		i->disp = number(word, 0, 25) * 4 - 4;
	} else if (word << 1 >> 26 == 0x1a || word << 1 >> 26 == 0x1b) { /* cbz, tbz */
		i->more = MORE_TESTS;
		i->reg = i->scale = reg(word, 0);
	} else if (word >> 25 == 0x6b && !(word >> 23 & 3)) { /* br, blr and ret */
		int kind = word >> 21 & 3;

		i->flags = kind == 2 ? INSN_LEAVES : INSN_INDIRECT | (kind == 1 ? INSN_CALLS : 0);
		i->reg = reg(word, 5);
	} else if (word >> 20 == 0xd53) {
		u32 from = word & ~31u;

		i->reg = reg(word, 0);
		i->more = MORE_SETS | (from == SP_EL0 ? MORE_TASK : 0) |
			  (from == TPIDR_EL1 || from == TPIDR_EL2 ? MORE_CPU : 0);
	}
}

/* Instructions on registers. What they compare is in reg and scale, and what they set in index. */
static void compute(struct insn *i, u32 word)
{
	u32 class = word >> 24 & 0x1f;
	bool adds = class == 0x11 || class == 0x0b, sets_flags = word >> 29 & 1,
	     immediate = (word >> 26 & 7) == 4;
	u8 second = immediate ? reg(word, 5) : reg(word, 16);

	if ((adds && sets_flags) ||
	    ((class == 0x0a || (class == 0x12 && !(word >> 23 & 1))) && (word >> 29 & 3) == 3)) {
		i->more = MORE_TESTS;
		i->index = reg(word, 0);
	} else if ((word & 0x3fe00410) == 0x3a400000) { /* ccmp and ccmn */
		i->more = MORE_TESTS;
		second = word >> 11 & 1 ? reg(word, 5) : second;
	}
	if (i->more) {
		i->reg = reg(word, 5);
		i->scale = second;
		return;
	}
	i->more = MORE_SETS | (adds ? MORE_ADDS : 0);
	i->reg = reg(word, 0);
	i->base = reg(word, 5);
	i->index = immediate ? REG_NONE : second;
}

__attribute__((visibility("default"))) void board_decode(const u8 *code, u64 size, struct insn *i)
{
	u32 word;

	__builtin_memset(i, 0, sizeof(*i));
	i->base = i->index = REG_NONE;
	if (size < 4)
		return;
	__builtin_memcpy(&word, code, 4);
	i->size = 4;
	i->scale = 1;
	switch (word >> 25 & 15) {
	case 4:
	case 6:
	case 12:
	case 14: load_or_store(i, word); break;
	case 10:
	case 11: branch(i, word); break;
	case 5:
	case 8:
	case 9:
	case 13: compute(i, word); break;
	}
}

static u64 bit(u8 reg)
{
	return reg < 32 ? 1ull << reg : 0;
}

/*
 * Follow the address of the running task (the upper half of known has a bit for each register that
 * holds it) and of data of its processor (the lower half), from one instruction to the next.
 */
void follow_registers(u64 *known, struct insn *i)
{
	u64 used = bit(i->base) | bit(i->index), cpu = *known & used, task = *known >> 32 & used,
	    set = 0;

	if (i->flags & (INSN_READS | INSN_WRITES)) {
		if (cpu)
			i->flags |= INSN_PER_CPU;
		if (task)
			i->more |= MORE_OF_TASK;
		if (i->flags & INSN_READS)
			set = bit(i->reg);
	} else if (i->more & MORE_TESTS) {
		set = bit(i->index);
	} else if (i->more & MORE_SETS) {
		set = bit(i->reg);
	} else if (i->flags & (INSN_CALLS | INSN_TAIL)) {
		set = (1ull << SAVED) - 1;
	} else if (i->flags & (INSN_LEAVES | INSN_INDIRECT)) {
		set = (u32)-1;
	}
	*known &= ~(set | set << 32);
	if (i->more & MORE_CPU || (i->more & MORE_ADDS && cpu))
		*known |= set;
	if (i->more & MORE_TASK)
		*known |= set << 32;
}
