// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The part of instructions.c for arm64: system registers and instructions, hints, exceptions,
 * branches, loads and stores, what is not allocated; every fourth program goes by single steps.
 */
#define GENERAL 34 /* x0 to x30, sp, pc, pstate */
#define SP 31
#define PC 32
#define FLAGS 33
#define LAST_FIXED FLAGS
#define COMPARED_FLAGS (~0x1000ul) /* but SSBS, which the kernel sets when it changes tasks */
#define NUMBER 8 /* the register of a system call's number */
#define NO_CALL (-1ul)
#define FLOATS 65 /* fpsr and fpcr, and halves of v0 to v31 */
#define FLOATS_MAGIC 0x46508001
#define FAULT_MAGIC 0x45535201
#define EACH 14
#define IS_STEPPED (program % 4 == 3)

#include "instructions_risc.h"

static word call6(word nr, word a, word b, word c, word d, word e, word f)
{
	register word x0 asm("x0") = a, x1 asm("x1") = b, x2 asm("x2") = c, x3 asm("x3") = d;
	register word x4 asm("x4") = e, x5 asm("x5") = f, x8 asm("x8") = nr;

	asm volatile("svc #0"
		     : "+r"(x0)
		     : "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5), "r"(x8)
		     : "memory");
	return x0;
}

static word *general(const ucontext_t *context)
{
	return (word *)context->uc_mcontext.regs;
}

static word *record(const ucontext_t *context, uint32_t magic)
{
	const byte *at = context->uc_mcontext.__reserved;

	while (*(uint32_t *)at && *(uint32_t *)at != magic)
		at += ((uint32_t *)at)[1];
	return (word *)at + 1;
}

static word *floats(const ucontext_t *context)
{
	return record(context, FLOATS_MAGIC);
}

static word detail(const ucontext_t *context)
{
	return *record(context, FAULT_MAGIC);
}

static word some_float(int n)
{
	return n ? below(2) ? draw() : below(4) : draw() & 0x07c0000000000000;
}

static int length(uint32_t insn)
{
	(void)insn;
	return 4;
}

/* ldar and its kin: see differs.tsv; MDCCSR_EL0, which Linux forbids and QEMU lets a program read */
static int is_left_out(uint32_t insn)
{
	return (insn & 0x3fa00000) == 0x08800000 || insn >> 5 == 0xd5330100 >> 5;
}

static void clear(int reg)
{
	emit_insn(0xd2800000 | reg);
}

/* MRS, MSR, SYS, hints, barriers, fields of PSTATE */
static void system_space(uint32_t which)
{
	const int is_clock = (which >> 7 & 0x3ff) == 0x3be; /* or its frequency */
	uint32_t reg = below(4) ? below(8) : 31;

	if (is_clock && IS_STEPPED)
		reg = 31;
	emit_insn(0xd5000000 | (which & 0x1ffff) << 5 | reg);
	if (is_clock && reg != 31)
		clear(reg);
}

static void exception(void)
{
	static const uint32_t numbers[] = { 0x92800008, 0xd2800008 | 124 << 5,
					    0xd2800008 | 139 << 5, 0xd2800008 | 5000 << 5 };
	static const uint32_t immediates[] = { 0, 1, 0xe9, 0xffff, 0x800, 4 };

	emit_insn(ONE_OF(numbers));
	emit_insn(0xd4000000 | (draw() & 0xe0001f) | ONE_OF(immediates) << 5);
	if (below(2))
		emit_insn(0xd4000001 | ONE_OF(immediates) << 5);
}

static void other(void)
{
	switch (below(8)) {
	case 0:  emit_insn(0xd6000000 | (draw() & 0x01ffffff)); break; /* eret, ret, blr */
	case 1:  emit_insn(draw() & 0x01ffffff); break;
	case 2:  emit_insn(0x0e000000 | (draw() & 0xf1ffffff)); break; /* of floats and vectors */
	case 3:
	case 4:  emit_insn(draw()); break;
	default: emit_insn(0x08000000 | (draw() & 0xf5fffcff)); /* loads and stores */
	}
}

static void make(void)
{
	static void (*const parts[])(void) = { exception, other, other, other, other };

	if (IS_STEPPED)
		emit_insn(0xd4200000); /* brk #0 */
	for (int n = 0; n < EACH; n++)
		system_space(program * EACH + n);
	for (int n = 1 + below(12); n; n--)
		ONE_OF(parts)();
	if (IS_STEPPED)
		call(SYS_ptrace, PTRACE_TRACEME, 0, 0, 0);
}

/* Follow single steps of a program from its first breakpoint to its first signal. */
static void follow(int child, int *status)
{
	word regs[GENERAL], left = 60, now = 0, trail = 0;
	struct iovec iov = { regs, sizeof regs };
	siginfo_t info;

	for (int begun = 0; call(SYS_wait4, child, (word)status, 0, 0), WIFSTOPPED(*status);) {
		int number = WSTOPSIG(*status), is_step;

		call(SYS_ptrace, PTRACE_GETSIGINFO, child, 0, (word)&info);
		call(SYS_ptrace, PTRACE_GETREGSET, child, 1, (word)&iov);
		is_step = number == SIGTRAP && info.si_code == TRAP_TRACE;
		if (!begun && number == SIGTRAP) {
			begun = is_step = 1;
			regs[PC] += 4;
			call(SYS_ptrace, PTRACE_SETREGSET, child, 1, (word)&iov);
		}
		if (begun && left) {
			trail = mix(mix(mixed(trail, regs), info.si_code), number);
			if (all) {
				put_field("\n step to ", regs[PC]);
				put_field(" signal ", number);
				put_field(" code ", info.si_code);
				put_field(" trail ", trail);
			}
		}
		now = begun && left ? PTRACE_SINGLESTEP : PTRACE_CONT;
		if (left && begun)
			left = is_step ? left - 1 : 0;
		call(SYS_ptrace, now, child, 0, is_step ? 0 : number);
	}
	if (trail) {
		put_field(" stepped ", trail);
		end_line();
	}
}

asm(".globl _start\n_start: mov x29, #0\nmov x0, sp\nbl begin\n");
