// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Do random instructions of SSE, MMX and the x87, and print what they leave.
 *
 * floats SEED FIRST COUNT: reads a table of instructions, one a line: what its operands are (s, d:
 * floating-point numbers of 32 or 64 bits, i: integers, x: of the x87), and its bytes in hex. Writes a
 * struct record for each of COUNT cases. A case is decided by SEED and its number: one to three
 * instructions of the table, with random registers and modes. An operand in memory is at (%rsi).
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "chance.h"

#define MOST 2000
#define CODE_SIZE 128

struct instruction {
	char kind;
	uint8_t size;
	uint8_t bytes[14];
};

struct fpu {
	uint16_t control, status;
	uint8_t tags, zero;
	uint16_t opcode;
	uint64_t ip, data;
	uint32_t mxcsr, mask;
	uint8_t st[8][16], xmm[16][16], others[96];
} __attribute__((aligned(16)));

struct machine {
	struct fpu fpu;
	uint64_t rax, rdx, rcx, flags;
	uint8_t memory[16];
};

struct record {
	uint32_t number;
	int32_t code; /* of a SIGFPE, and 100 and more: of another signal */
	struct instruction done[3];
	uint32_t mxcsr_before, control_before;
	uint8_t xmm_before[2][16], st_before[2][16], memory_before[16];
	uint64_t rax_before;
	/* what is to be the same */
	uint32_t mxcsr;
	uint16_t control, status;
	uint32_t tags, at;
	uint64_t rax, rcx, flags;
	uint8_t xmm[2][16], st[8][16], memory[16];
};

static struct instruction table[MOST];
static struct machine m;
static struct record r;
static uint8_t *code;

static uint32_t below(uint32_t limit)
{
	return draw() % limit;
}

/* A fraction: often of few bits, or of nearly all. */
static uint64_t fraction(int bits)
{
	uint64_t mask = ~0ull >> (64 - bits), x = draw() & mask;

	switch (below(5)) {
	case 0: return 0;
	case 1: return mask - (draw() & 3);
	case 2: return 1ull << below(bits);
	case 3: return x & ~0ull << below(bits);
	}
	return x;
}

/* An exponent of so many bits: often at an end, or near 0. */
static uint32_t exponent(int bits)
{
	uint32_t most = (1u << bits) - 1, middle = most >> 1;

	switch (below(8)) {
	case 0: return 0;
	case 1: return most;
	case 2: return 1 + below(3);
	case 3: return most - 1 - below(2);
	case 4: return middle + below(8) - 4;
	case 5: return middle + below(140) - 70;
	case 6: return middle / 2 + below(4);
	}
	return below(most);
}

static uint64_t number(char kind)
{
	uint64_t sign = draw() & 1;

	if (kind == 's')
		return sign << 31 | (uint64_t)exponent(8) << 23 | fraction(23);
	if (kind == 'd')
		return sign << 63 | (uint64_t)exponent(11) << 52 | fraction(52);
	return below(4) ? draw() : (draw() & 0x8000800080ff80ff) * (draw() & 1 ? 1 : 0x101);
}

static void fill(uint8_t *at, char kind)
{
	for (int i = 0; i < 16; i += kind == 's' ? 4 : 8) {
		uint64_t value = number(kind);

		memcpy(at + i, &value, kind == 's' ? 4 : 8);
	}
}

/* A number of the x87 that its instructions make: no encoding that is left from the 8087. */
static void fill_st(uint8_t *at)
{
	uint16_t high = exponent(15) | below(2) << 15;
	uint64_t low = fraction(63) | (high & 0x7fff ? 1ull << 63 : 0);

	if (!below(4)) {
		double d = (int64_t)draw() >> below(64);
		long double l = d;

		memcpy(at, &l, 10);
		return;
	}
	memcpy(at, &low, 8);
	memcpy(at + 8, &high, 2);
}

static void on_signal(int number, siginfo_t *info, void *context)
{
	ucontext_t *c = context;

	r.code = number == SIGFPE ? info->si_code : 100 + number;
	r.at = c->uc_mcontext.gregs[REG_RIP] - (uint64_t)(uintptr_t)code;
	memcpy(&m.fpu, c->uc_mcontext.fpregs, sizeof(m.fpu));
	m.rax = c->uc_mcontext.gregs[REG_RAX];
	m.rcx = c->uc_mcontext.gregs[REG_RCX];
	m.flags = c->uc_mcontext.gregs[REG_EFL];
	/* behind the instructions, with nothing left to raise */
	c->uc_mcontext.gregs[REG_RIP] = (uintptr_t)code + CODE_SIZE - 1;
	c->uc_mcontext.fpregs->cwd = 0x37f;
	c->uc_mcontext.fpregs->swd = 0;
	c->uc_mcontext.fpregs->ftw = 0;
	c->uc_mcontext.fpregs->mxcsr = 0x1f80;
	c->uc_mcontext.gregs[REG_EFL] &= ~0x400ll;
}

/* Write code: load all registers, the instructions, store all, and return. */
static uint32_t write_code(uint8_t *to, int count)
{
	static const uint8_t load[] = { 0x48, 0x0f, 0xae, 0x0f,            /* fxrstor64 (%rdi) */
					0xff, 0xb7, 0x18, 2,    0, 0,      /* push 536(%rdi) */
					0x9d,                              /* popf */
					0x48, 0x8b, 0x87, 0,    2, 0, 0,   /* mov 512(%rdi), %rax */
					0x48, 0x8b, 0x97, 8,    2, 0, 0,   /* mov 520(%rdi), %rdx */
					0x48, 0x8b, 0x8f, 16,   2, 0, 0 }; /* mov 528(%rdi), %rcx */
	static const uint8_t store[] = {
		0x9c, 0x8f, 0x87, 0x18, 2,    0,    0, /* pushf; pop 536(%rdi) */
		0x48, 0x89, 0x87, 0,    2,    0,    0,    0x48, 0x89, 0x8f, 16,
		2,    0,    0,    0x48, 0x0f, 0xae, 0x07, 0xdb, 0xe3, 0xc3
	};
	uint8_t *at = to;

	memset(to, 0xc3, CODE_SIZE);
	memcpy(at, load, sizeof(load));
	at += sizeof(load);
	for (int i = 0; i < count; i++) {
		memcpy(at, r.done[i].bytes, r.done[i].size);
		at += r.done[i].size;
	}
	memcpy(at, store, sizeof(store));
	return at - to;
}

/* Whether registers may be full or empty after it, as libunicorn does not look: fninit and the like. */
static int changes_stack(const struct instruction *i)
{
	static const uint8_t all[][2] = {
		{ 0xd9, 0xf6 }, { 0xd9, 0xf7 }, { 0xdb, 0xe3 },
		{ 0xdd, 0xc1 }, { 0xda, 0xe9 }, { 0xde, 0xd9 },
	};

	for (unsigned int n = 0; n < sizeof(all) / sizeof(*all); n++)
		if (i->size == 2 && !memcmp(i->bytes, all[n], 2))
			return 1;
	return 0;
}

/* Whether an instruction of the x87 pops a register or stores: then libunicorn does so in any case. */
static int takes_or_stores(int count)
{
	for (int i = 0; i < count; i++) {
		int in_memory = r.done[i].bytes[1] < 0xc0, way = r.done[i].bytes[1] >> 3 & 7;

		switch (r.done[i].bytes[0]) {
		case 0xd8:
		case 0xdc:
			if (way == 3)
				return 1;
			break;
		case 0xda:
			if (!in_memory || way == 3) /* fcmov, too, which may do nothing */
				return 1;
			break;
		case 0xd9:
			if (in_memory && way)
				return 1;
			break;
		case 0xdb:
			if (in_memory ? way && way != 5 : way < 4)
				return 1;
			break;
		case 0xdd:
			if (in_memory ? way : way == 3 || way == 5)
				return 1;
			break;
		case 0xde:
			if (!in_memory || way == 3)
				return 1;
			break;
		case 0xdf:
			if (in_memory ? way && way != 5 : way != 4)
				return 1;
		}
	}
	return 0;
}

static void draw_case(int nr, uint32_t index)
{
	char kind;
	int count = below(4) ? 1 : 2 + below(2);

	memset(&r, 0, sizeof(r));
	memset(&m, 0, sizeof(m));
	r.number = index;
	r.done[0] = table[below(nr)];
	kind = r.done[0].kind;
	if (changes_stack(&r.done[0]))
		count = 1;
	for (int i = 1; i < count; i++)
		do
			r.done[i] = table[below(nr)];
		while ((r.done[i].kind == 'x') != (kind == 'x') || changes_stack(&r.done[i]));
	m.fpu.control = 0x37f;
	m.fpu.mxcsr = 0x1f80;
	m.fpu.mask = 0xffff;
	if (kind == 'x') {
		static const uint16_t precisions[] = { 0x300, 0x300, 0x300, 0x200, 0 };

		m.fpu.control = 0x7f | precisions[below(5)] | (below(2) ? below(4) << 10 : 0);
		if (!below(3) && !takes_or_stores(count))
			m.fpu.control &= ~(1u << below(6));
		m.fpu.tags = 0xff >> 3;
		m.fpu.status = below(8) << 11 | (below(4) ? 0 : below(16) << 8 & 0x4700);
		m.fpu.tags = m.fpu.tags << (m.fpu.status >> 11) |
			     m.fpu.tags >> (8 - (m.fpu.status >> 11));
	} else {
		m.fpu.mxcsr |= below(2) ? below(4) << 13 : 0;
		m.fpu.mxcsr |= below(4) ? 0 : 0x8000;
		m.fpu.mxcsr |= below(4) ? 0 : 0x40;
		m.fpu.mxcsr |= below(4) ? 0 : below(64);
		if (!below(4))
			m.fpu.mxcsr &= ~(below(64) << 7);
	}
	for (int i = 0; i < 8; i++)
		fill_st(m.fpu.st[i]);
	fill(m.fpu.xmm[0], kind);
	fill(m.fpu.xmm[1], kind);
	fill(m.memory, kind == 'x' ? "sdiii"[below(5)] : kind);
	m.rax = draw() >> below(64);
	m.rdx = draw() >> below(64);
	m.rcx = draw();
	m.flags = 0x202 | (draw() & 0x8d5);
}

int main(int argc, char **argv)
{
	uint64_t seed = strtoull(argv[1], 0, 0);
	uint32_t first = atoi(argv[2]), count = atoi(argv[3]);
	struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };
	char kind, hex[32];
	uint8_t *all;
	int nr = 0;

	while (nr < MOST && scanf(" %c %31s", &kind, hex) == 2) {
		struct instruction *i = &table[nr++];

		i->kind = kind;
		for (i->size = 0; hex[2 * i->size]; i->size++)
			sscanf(hex + 2 * i->size, "%2hhx", &i->bytes[i->size]);
	}
	sigaction(SIGFPE, &action, 0);
	sigaction(SIGILL, &action, 0);
	sigaction(SIGSEGV, &action, 0);
	all = mmap(0, (size_t)count * CODE_SIZE + 1, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (argc != 4 || all == MAP_FAILED)
		return 2;
	/* twice: code is written before any of it runs */
	for (int runs = 0; runs < 2; runs++) {
		for (uint32_t i = 0; i < count; i++) {
			int nr_done = 0;

			state = seed << 32 | (first + i);
			draw_case(nr, first + i);
			while (nr_done < 3 && r.done[nr_done].size)
				nr_done++;
			code = all + (size_t)i * CODE_SIZE;
			if (!runs) {
				write_code(code, nr_done);
				continue;
			}
			r.mxcsr_before = m.fpu.mxcsr;
			r.control_before = m.fpu.control;
			r.rax_before = m.rax;
			memcpy(r.xmm_before, m.fpu.xmm, 32);
			memcpy(r.st_before, m.fpu.st, 32);
			memcpy(r.memory_before, m.memory, 16);
			/* the function saves what it uses: flags, and registers of the x87 by fninit */
			asm volatile("call *%0"
				     :
				     : "r"(code), "D"(&m), "S"(m.memory)
				     : "rax", "rcx", "rdx", "memory", "cc", "xmm0", "xmm1");
			asm volatile("ldmxcsr %0" : : "m"((uint32_t){ 0x1f80 }));
			r.mxcsr = m.fpu.mxcsr;
			r.control = m.fpu.control;
			r.status = m.fpu.status;
			r.tags = m.fpu.tags;
			r.rax = m.rax;
			r.rcx = m.rcx;
			r.flags = m.flags & 0x8d5;
			memcpy(r.xmm, m.fpu.xmm, 32);
			for (int j = 0; j < 8; j++)
				memcpy(r.st[j], m.fpu.st[j], 10);
			memcpy(r.memory, m.memory, 16);
			fwrite(&r, sizeof(r), 1, stdout);
		}
		if (!runs && mprotect(all, (size_t)count * CODE_SIZE + 1, PROT_READ | PROT_EXEC))
			return 2;
	}
	return 0;
}
