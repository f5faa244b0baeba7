// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The part of instructions.c for riscv64: control registers, privileged instructions, calls,
 * fences, loads, stores and atomic ones, compressed ones, floating-point ones with any rounding.
 */
#define GENERAL 32 /* pc, x1 to x31 */
#define PC 0
#define FLAGS GENERAL /* there are none */
#define LAST_FIXED 0
#define COMPARED_FLAGS 0
#define SP 2
#define NUMBER 17 /* the register of a system call's number */
#define NO_CALL (-1ul)
#define FLOATS 33 /* f0 to f31, fcsr */
#define EACH 5
#define CSRS 4096

#include "instructions_risc.h"

static word call6(word nr, word a, word b, word c, word d, word e, word f)
{
	register word a0 asm("a0") = a, a1 asm("a1") = b, a2 asm("a2") = c, a3 asm("a3") = d;
	register word a4 asm("a4") = e, a5 asm("a5") = f, a7 asm("a7") = nr;

	asm volatile("ecall"
		     : "+r"(a0)
		     : "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5), "r"(a7)
		     : "memory");
	return a0;
}

static word *general(const ucontext_t *context)
{
	return (word *)context->uc_mcontext.__gregs;
}

static word *floats(const ucontext_t *context)
{
	return (word *)&context->uc_mcontext.__fpregs.__d;
}

static word detail(const ucontext_t *context)
{
	(void)context;
	return 0;
}

static word some_float(int n)
{
	return n == FLOATS - 1 ? below(256) : below(2) ? draw() : below(4);
}

static int length(uint32_t insn)
{
	return (insn & 3) == 3 ? 4 : 2;
}

/*
 * Branches, which may lead into the middle of an instruction, and arithmetic of narrow numbers that
 * lack their ones: see differs.tsv.
 */
static int is_left_out(uint32_t insn)
{
	uint32_t opcode = insn & 0x7f, format = insn >> 25 & 3;

	if ((opcode == 0x53 || (opcode & 0x73) == 0x43) && (!format || insn >> 25 == 0x21))
		return 1;
	return opcode == 0x63 || opcode == 0x6f || ((insn & 3) == 1 && (insn & 0xe000) >= 0xa000);
}

static void clear(int reg)
{
	emit_insn(0x13 | reg << 7);
}

/* each way to read and write each control register, and each compressed instruction */
static void system_space(uint32_t which)
{
	static const byte ways[] = { 1, 2, 3, 5, 6, 7 };
	uint32_t csr = which / sizeof ways % CSRS, reg = below(2) ? 0 : 5 + below(8);

	emit_insn(0x73 | reg << 7 | ways[which % sizeof ways] << 12 |
		  (below(2) ? 0 : below(32)) << 15 | csr << 20);
	if (csr >> 8 == 0xc) /* clocks and counters */
		clear(reg);
	emit_insn((which / 3 << 2 | which % 3) & 0xffff);
}

static void exception(void)
{
	static const uint32_t numbers[] = { -1, 124, 139, 2047 };
	static const uint32_t list[] = {
		0x10200073, 0x30200073, 0x10500073, 0x00100073, 0x12000073, 0x7b200073,
		0x00200073, 0x0000100f, 0x0ff0000f, 0x0000a00f, 0x0105a00f, 0x0205a00f,
		0x00010001, 0x90029002, 0x00000000, 0xffffffff, 0x0000000b,
	};

	emit_insn(0x893 | ONE_OF(numbers) << 20);
	emit_insn(below(2) ? 0x73 : ONE_OF(list));
	if (!below(4))
		emit_insn(0x73 | (draw() & 0xffff8f80));
}

static void other(void)
{
	static const byte opcodes[] = { 0x03, 0x07, 0x23, 0x27, 0x2f, 0x2f, 0x53, 0x43, 0x47, 0x73 };

	switch (below(5)) {
	case 0:  emit_insn(draw() & 0xffff); break;
	case 1:  emit_insn(draw() | 3); break;
	default: emit_insn(ONE_OF(opcodes) | (draw() & 0xffffff80)); /* loads, stores .. */
	}
}

static void make(void)
{
	static void (*const parts[])(void) = { exception, other, other, other, other };

	for (int n = 0; n < EACH; n++)
		system_space(program * EACH + n);
	for (int n = 1 + below(20); n; n--)
		ONE_OF(parts)();
}

static void follow(int child, int *status)
{
	call(SYS_wait4, child, (word)status, 0, 0);
}

asm(".globl _start\n_start: li s0, 0\nmv a0, sp\ncall begin\n");
