// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Rows of instructions: what each accesses, and whether it calls.
 *
 * The maps say for each opcode what follows it, and what it does with its operand in memory. Where
 * they do not know the size of an access, as of some vector instructions, it is none: nothing is
 * said of it.
 */
#include "../search/looks.h"
#include "x86.h"

enum {
	M = 1,     /* a ModRM byte follows */
	I1 = 2,    /* a number of one byte */
	IZ = 4,    /* of 2 or 4 */
	IV = 8,    /* of 2, 4 or 8 */
	RD = 0x10, /* reads its operand */
	WR = 0x20, /* writes it */
	RW = RD | WR,
	BYTE = 0x40,    /* the operand has 1 byte */
	WORD = 0x80,    /* 2 */
	LONG = 0x100,   /* 4 */
	QUAD = 0x200,   /* 8 */
	XMM = 0x400,    /* 16, or less by the prefix: see xmm_size() */
	FULL = 0x800,   /* 16, or 32 with VEX.L */
	STR = 0x1000,   /* a string instruction */
	USES = 0x2000,  /* what it reads it uses at once */
	GROUP = 0x4000, /* see group() */
	BIT = 0x8000,   /* bits of an array */
};

#define MIB (M | I1)

static const u16 one_byte[256] = {
#define ALU(op, how)                                                                          \
	[op] = M | (how) | BYTE | USES, [op + 1] = M | (how) | USES,                          \
	[op + 2] = M | RD | BYTE | USES, [op + 3] = M | RD | USES, [op + 4] = I1, [op + 5] = IZ
	ALU(0x00, RW),
	ALU(0x08, RW),
	ALU(0x10, RW),
	ALU(0x18, RW),
	ALU(0x20, RW),
	ALU(0x28, RW),
	ALU(0x30, RW),
	ALU(0x38, RD),
	[0x63] = M | RD | LONG,
	[0x68] = IZ,
	[0x69] = M | IZ | RD | USES,
	[0x6a] = I1,
	[0x6b] = MIB | RD | USES,
	[0x70 ... 0x7f] = I1,
	[0x80] = MIB | RW | BYTE | GROUP | USES,
	[0x81] = M | IZ | RW | GROUP | USES,
	[0x83] = MIB | RW | GROUP | USES,
	[0x84] = M | RD | BYTE | USES,
	[0x85] = M | RD | USES,
	[0x86] = M | RW | BYTE,
	[0x87] = M | RW,
	[0x88] = M | WR | BYTE,
	[0x89] = M | WR,
	[0x8a] = M | RD | BYTE,
	[0x8b] = M | RD,
	[0x8c] = M | WR | WORD,
	[0x8d] = M,
	[0x8e] = M | RD | WORD,
	[0x8f] = M | WR | QUAD,
	[0xa4] = STR | RW | BYTE,
	[0xa5] = STR | RW,
	[0xa6] = STR | RD | BYTE, /* cmps: of two strings, of which one is looked at */
	[0xa7] = STR | RD,
	[0xa8] = I1,
	[0xa9] = IZ,
	[0xaa] = STR | WR | BYTE,
	[0xab] = STR | WR,
	[0xac] = STR | RD | BYTE,
	[0xad] = STR | RD,
	[0xae] = STR | RD | BYTE,
	[0xaf] = STR | RD,
	[0xb0 ... 0xb7] = I1,
	[0xb8 ... 0xbf] = IV,
	[0xc0] = MIB | RW | BYTE | USES,
	[0xc1] = MIB | RW | USES,
	[0xc6] = MIB | WR | BYTE,
	[0xc7] = M | IZ | WR,
	[0xcd] = I1,
	[0xd0] = M | RW | BYTE | USES,
	[0xd1] = M | RW | USES,
	[0xd2] = M | RW | BYTE | USES,
	[0xd3] = M | RW | USES,
	[0xd8 ... 0xdf] = M,
	[0xe0 ... 0xe7] = I1,
	[0xe8 ... 0xe9] = IZ,
	[0xeb] = I1,
	[0xf6] = M | GROUP | BYTE | USES,
	[0xf7] = M | GROUP | USES,
	[0xfe] = M | GROUP | RW | BYTE | USES,
	[0xff] = M | GROUP | USES,
};

static const u16 two_bytes[256] = {
	[0x00 ... 0x03] = M,
	[0x0d] = M,
	[0x0f] = MIB,
	[0x10] = M | RD | XMM,
	[0x11] = M | WR | XMM,
	[0x12] = M | RD | QUAD,
	[0x13] = M | WR | QUAD,
	[0x14 ... 0x15] = M | RD | FULL,
	[0x16] = M | RD | QUAD,
	[0x17] = M | WR | QUAD,
	[0x18 ... 0x27] = M,
	[0x28] = M | RD | FULL,
	[0x29] = M | WR | FULL,
	[0x2a] = M,
	[0x2b] = M | WR | FULL,
	[0x2c ... 0x2f] = M,
	[0x40 ... 0x4f] = M | RD,
	[0x50] = M,
	[0x51 ... 0x53] = M | RD | XMM,
	[0x54 ... 0x57] = M | RD | FULL,
	[0x58 ... 0x59] = M | RD | XMM,
	[0x5a ... 0x5b] = M,
	[0x5c ... 0x5f] = M | RD | XMM,
	[0x60 ... 0x6d] = M | RD | FULL,
	[0x6e] = M | RD,
	[0x6f] = M | RD | FULL,
	[0x70] = MIB | RD | FULL,
	[0x71 ... 0x73] = MIB,
	[0x74 ... 0x76] = M | RD | FULL,
	[0x78 ... 0x79] = M,
	[0x7c ... 0x7d] = M | RD | FULL,
	[0x7e] = M | WR,
	[0x7f] = M | WR | FULL,
	[0x80 ... 0x8f] = IZ,
	[0x90 ... 0x9f] = M | WR | BYTE,
	[0xa3] = M | RD | BIT | USES,
	[0xa4] = MIB | RW | USES,
	[0xa5] = M | RW | USES,
	[0xab] = M | RW | BIT | USES,
	[0xac] = MIB | RW | USES,
	[0xad] = M | RW | USES,
	[0xae] = M | GROUP,
	[0xaf] = M | RD | USES,
	[0xb0] = M | RW | BYTE | USES,
	[0xb1] = M | RW | USES,
	[0xb2] = M,
	[0xb3] = M | RW | BIT | USES,
	[0xb4 ... 0xb5] = M,
	[0xb6] = M | RD | BYTE,
	[0xb7] = M | RD | WORD,
	[0xb8] = M | RD | USES,
	[0xb9] = M,
	[0xba] = MIB | RW | GROUP | USES,
	[0xbb] = M | RW | BIT | USES,
	[0xbc ... 0xbd] = M | RD | USES,
	[0xbe] = M | RD | BYTE,
	[0xbf] = M | RD | WORD,
	[0xc0] = M | RW | BYTE | USES,
	[0xc1] = M | RW | USES,
	[0xc2] = MIB | RD | XMM,
	[0xc3] = M | WR,
	[0xc4] = MIB | RD | WORD,
	[0xc5] = MIB,
	[0xc6] = MIB | RD | FULL,
	[0xc7] = M | GROUP,
	[0xd0] = M | RD | FULL,
	[0xd1 ... 0xd3] = M | RD | FULL,
	[0xd4 ... 0xd5] = M | RD | FULL,
	[0xd6] = M | WR | QUAD,
	[0xd7] = M,
	[0xd8 ... 0xdf] = M | RD | FULL,
	[0xe0 ... 0xe5] = M | RD | FULL,
	[0xe6] = M,
	[0xe7] = M | WR | FULL,
	[0xe8 ... 0xf6] = M | RD | FULL,
	[0xf7] = M,
	[0xf8 ... 0xfe] = M | RD | FULL,
	[0xff] = M,
};

/* What the decoder knows while it reads one instruction. */
struct reader {
	const u8 *at;
	const u8 *end;
	bool past_end;
	u8 rex;     /* with the bits W, R, X and B of a VEX prefix, too */
	u8 prefix;  /* 0, 0x66, 0xf2 or 0xf3: the one that tells SSE instructions apart */
	bool small; /* 0x66 */
	bool locked;
	bool repeats;
	bool per_cpu;
	bool other_segment;
	bool short_address;
	bool no_track;
	bool vex;
	bool wide; /* VEX.L */
	bool evex;
};

static u8 next(struct reader *r)
{
	if (r->at < r->end)
		return *r->at++;
	r->past_end = true;
	return 0;
}

static u64 number(struct reader *r, int size)
{
	u64 value = 0;

	for (int i = 0; i < size; i++)
		value |= (u64)next(r) << 8 * i;
	return value;
}

/* Read prefixes, and return the first byte of the opcode. */
static u8 prefixes(struct reader *r)
{
	for (;;) {
		u8 c = next(r);

		switch (c) {
		case 0x66:
			r->small = true;
			if (!r->prefix)
				r->prefix = c;
			break;
		case 0xf2:
		case 0xf3:
			r->repeats = true;
			r->prefix = c;
			break;
		case 0xf0:          r->locked = true; break;
		case 0x65:          r->per_cpu = true; break;
		case 0x64:          r->other_segment = true; break;
		case 0x3e:          r->no_track = true; break;
		case 0x2e:
		case 0x26:
		case 0x36:          break;
		case 0x67:          r->short_address = true; break;
		case 0x40 ... 0x4f: r->rex = c; return next(r);
		default:            return c;
		}
		if (r->past_end)
			return 0;
	}
}

/* Read a VEX or EVEX prefix; return the number of its map. */
static int vector_prefix(struct reader *r, u8 c)
{
	static const u8 prefix[] = { 0, 0x66, 0xf3, 0xf2 };
	u8 a = next(r), last;
	int map = 1;

	r->vex = true;
	if (c == 0xc5) {
		last = a;
		r->rex = ~a >> 5 & 4;
	} else {
		last = next(r);
		r->rex = (~a >> 5 & 7) | (last >> 7) << 3;
		map = a & (c == 0x62 ? 7 : 31);
		r->evex = c == 0x62;
		if (r->evex)
			next(r);
	}
	r->wide = last >> 2 & 1;
	r->prefix = prefix[last & 3];
	return map;
}

/* Read ModRM and what belongs to it; return false if the operand is a register. */
static bool operand(struct reader *r, u8 modrm, struct insn *i)
{
	int mod = modrm >> 6, rm = modrm & 7;

	if (mod == 3)
		return false;
	i->scale = 1;
	i->base = rm | (r->rex & 1) << 3;
	if (rm == 4) {
		u8 sib = next(r);
		int index = (sib >> 3 & 7) | (r->rex & 2) << 2;

		if (index != RSP)
			i->index = index;
		i->scale = 1 << (sib >> 6);
		i->base = (sib & 7) | (r->rex & 1) << 3;
		if ((sib & 7) == 5 && !mod) {
			i->base = REG_NONE;
			mod = 2;
		}
	} else if (rm == 5 && !mod) {
		i->base = REG_IP;
		mod = 2;
	}
	if (mod == 1)
		i->disp = (int8_t)next(r);
	else if (mod == 2)
		i->disp = (int32_t)number(r, 4);
	return true;
}

/* Opcodes whose meaning the middle bits of ModRM tell. Return what changes. */
static u32 group(const struct reader *r, int map, u8 op, u8 modrm, u32 how, struct insn *i)
{
	int reg = modrm >> 3 & 7;

	if (map == 1) {
		switch (op) {
		case 0xba: return reg == 4 ? how & ~WR : how;
		case 0xc7: return reg == 1 ? how | RW | USES | (r->rex & 8 ? FULL : QUAD) : how;
		case 0xae:
			return r->prefix ? how :
			       reg == 2  ? how | RD | LONG :
			       reg == 3  ? how | WR | LONG :
					   how;
		}
		return how;
	}
	switch (op) {
	case 0x80:
	case 0x81:
	case 0x83: return reg == 7 ? how & ~WR : how;
	case 0xf6:
	case 0xf7:
		if (reg < 2)
			return how | RD | (op == 0xf6 ? I1 : IZ);
		return how | (reg < 4 ? RW : RD);
	case 0xff:
		if (reg < 2)
			return how | RW;
		if (reg == 2 || reg == 4) {
			i->flags |= INSN_INDIRECT | (reg == 2 ? INSN_CALLS : 0);
			i->reg = modrm >> 6 == 3 ? (modrm & 7) | (r->rex & 1) << 3 : 255;
			if (r->no_track)
				i->flags |= INSN_NO_TRACK;
		}
		return how | RD | QUAD;
	}
	return how;
}

static u16 three_bytes(const struct reader *r, int map, u8 op)
{
	if (map == 3) {
		switch (op) {
		case 0x14: return MIB | WR | BYTE;
		case 0x15: return MIB | WR | WORD;
		case 0x16: return MIB | WR;
		}
		return MIB;
	}
	if (op == 0xf0 && r->prefix == 0xf2)
		return M | RD | BYTE;
	if ((op & 0xfe) == 0xf0 && !r->vex)
		return M | (op == 0xf1 && r->prefix != 0xf2 ? WR : RD);
	if (r->vex && (op == 0xf2 || op == 0xf5 || op == 0xf7))
		return M | RD;
	return op <= 0x0b || (op >= 0x1c && op <= 0x1e) ? M | RD | FULL : M;
}

/* Return whether an instruction compares, and does nothing else. */
static bool compares(int map, u8 op, u8 modrm)
{
	int reg = modrm >> 3 & 7;

	if (map == 1)
		return op == 0xa3 || (op == 0xba && reg == 4);
	if (map)
		return false;
	switch (op) {
	case 0x38 ... 0x3b:
	case 0x84:
	case 0x85:          return true;
	case 0x80:
	case 0x81:
	case 0x83:          return reg == 7;
	case 0xf6:
	case 0xf7:          return reg < 2;
	}
	return false;
}

/* Say what becomes of what an instruction reads. */
static void tell_more(const struct reader *r, int map, u8 op, u8 modrm, bool memory, struct insn *i)
{
	bool accumulator = !map && (op == 0x3c || op == 0x3d || op == 0xa8 || op == 0xa9);

	if (r->vex)
		return;
	if (memory) {
		bool loads =
			map ? map == 1 && (op == 0xb6 || op == 0xb7 || op == 0xbe || op == 0xbf) :
			      op == 0x63 || op == 0x8b || (op == 0x8a && r->rex);

		i->more = loads ? MORE_LOADS : compares(map, op, modrm) ? MORE_DECIDES : 0;
	} else if (accumulator) {
		i->more = MORE_TESTS;
		i->reg = i->scale = RAX;
	} else if (compares(map, op, modrm)) {
		bool one = !map && (op == 0x80 || op == 0x81 || op == 0x83 || op >= 0xf6);

		i->more = MORE_TESTS;
		i->scale = (modrm & 7) | (r->rex & 1) << 3;
		if (one || (map == 1 && op == 0xba))
			i->reg = i->scale;
	}
}

static int operand_size(const struct reader *r, int map, u8 op, u16 how)
{
	if (how & BYTE)
		return 1;
	if (how & WORD)
		return 2;
	if (how & LONG)
		return 4;
	if (how & QUAD)
		return 8;
	if (how & XMM && r->prefix >= 0xf2)
		return r->prefix == 0xf3 ? 4 : 8;
	if (how & (XMM | FULL)) {
		/* without a prefix these have registers of MMX */
		if (map == 1 && !r->vex && !r->prefix && (op >= 0xd0 || (op & 0xe0) == 0x60))
			return 8;
		return r->vex && r->wide ? 32 : 16;
	}
	if (r->rex & 8)
		return 8;
	return r->small ? 2 : 4;
}

__attribute__((visibility("default"))) void board_decode(const u8 *code, u64 size, struct insn *i)
{
	struct reader r = { .at = code, .end = code + (size < 15 ? size : 15) };
	u8 op = prefixes(&r), modrm = 0;
	int map = 0;
	u16 how;
	bool memory = false;

	__builtin_memset(i, 0, sizeof(*i));
	i->base = i->index = REG_NONE;
	if (op == 0x62 || op == 0xc4 || op == 0xc5) {
		map = vector_prefix(&r, op);
		op = next(&r);
	} else if (op == 0x0f) {
		map = 1;
		op = next(&r);
		if (op == 0x38 || op == 0x3a) {
			map = op == 0x38 ? 2 : 3;
			op = next(&r);
		}
	}
	how = map == 0 ? one_byte[op] : map == 1 ? two_bytes[op] : three_bytes(&r, map, op);
	if (r.vex && map == 1 && op == 0x77)
		how = 0;
	else if (r.vex)
		how |= M;
	if (how & M) {
		modrm = next(&r);
		memory = operand(&r, modrm, i);
		i->reg = (modrm >> 3 & 7) | (r.rex & 4) << 1;
	}
	if (how & GROUP)
		how = group(&r, map, op, modrm, how, i);
	if (map == 1 && (op == 0x6e || op == 0x7e)) {
		r.small = false; /* it stands for registers of SSE */
		if (op == 0x7e && r.prefix == 0xf3)
			how = M | RD | QUAD;
	}
	if (how & I1)
		next(&r);
	if (how & IZ)
		number(&r, r.small && !(op == 0xe8 || op == 0xe9) && !(r.rex & 8) ? 2 : 4);
	if (how & IV)
		number(&r, r.rex & 8 ? 8 : r.small ? 2 : 4);
	if (!map && op >= 0xa0 && op <= 0xa3)
		number(&r, r.short_address ? 4 : 8);
	if (!map && op == 0xc2)
		number(&r, 2);
	if (!map && op == 0xc8)
		number(&r, 3);
	if (r.past_end)
		return;
	i->size = r.at - code;
	if (!map && (op == 0xe8 || op == 0xe9)) {
		i->flags |= op == 0xe8 ? INSN_CALLS : INSN_TAIL;
		i->more = op == 0xe9 ? MORE_JUMPS : 0;
		__builtin_memcpy(&i->disp, r.at - 4, 4);
		return;
	}
	if (!map && (op == 0xc2 || op == 0xc3))
		i->flags |= INSN_LEAVES;
	if (how & STR) {
		i->flags |= INSN_STRING | (r.repeats ? INSN_REPEATS : 0);
		memory = true;
	} else {
		tell_more(&r, map, op, modrm, memory, i);
	}
	if (!memory || r.evex || r.other_segment || r.short_address)
		return;
	if (how & RD)
		i->flags |= INSN_READS;
	if (how & WR)
		i->flags |= INSN_WRITES;
	if (!(how & RW))
		return;
	i->bytes = operand_size(&r, map, op, how);
	if (how & USES)
		i->flags |= INSN_COMPARES;
	if (how & BIT)
		i->flags |= INSN_BITS;
	if (r.per_cpu)
		i->flags |= INSN_PER_CPU;
	if (r.locked || (!map && (op == 0x86 || op == 0x87)))
		i->flags |= INSN_LOCKED;
	if (i->base == RSP && i->index == REG_NONE && !(how & STR))
		i->flags |= INSN_ON_STACK;
}
