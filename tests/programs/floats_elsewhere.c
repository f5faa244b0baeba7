// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Do random floating-point instructions of arm64 or riscv64, and print what they leave.
 *
 * floats_elsewhere SEED COUNT: each line has the instruction, operands and mode, and behind a "|" the
 * results and the flags of exceptions. The operands of riscv64 that are narrow are boxed.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chance.h"

struct machine {
	uint64_t a[2], b[2], c[2]; /* operands; c is the result, too */
	uint64_t x;                /* an integer */
	uint64_t mode, flags;
};

static uint64_t below(uint64_t limit)
{
	return draw() % limit;
}

static uint64_t number(int exponent_bits, int fraction_bits)
{
	uint64_t most = (1ull << exponent_bits) - 1, mask = (1ull << fraction_bits) - 1;
	uint64_t exponent = below(most), fraction = draw() & mask;

	switch (below(6)) {
	case 0: exponent = 0; break;
	case 1: exponent = most; break;
	case 2: exponent = 1 + below(2); break;
	case 3: exponent = most / 2 + below(70) - 35; break;
	case 4: exponent = most - 1;
	}
	switch (below(4)) {
	case 0: fraction = 0; break;
	case 1: fraction = mask - below(2); break;
	case 2: fraction = 1ull << below(fraction_bits);
	}
	return below(2) << (exponent_bits + fraction_bits) | exponent << fraction_bits | fraction;
}

static uint64_t operand(char kind)
{
	switch (kind) {
	case 'd': return number(11, 52);
	case 's': return number(8, 23) | number(8, 23) << 32;
	case 'h':
		return number(5, 10) | number(5, 10) << 16 | number(5, 10) << 32 |
		       number(5, 10) << 48;
	}
	return draw() >> below(64);
}

#ifdef __aarch64__
#define DO(insn)                                                                             \
	asm volatile("msr fpcr, %[mode]\n\tmsr fpsr, xzr\n\tldr q0, %[a]\n\tldr q1, %[b]\n\t"  \
		     "ldr q2, %[c]\n\tldr x0, %[x]\n\t" insn "\n\tmrs x1, fpsr\n\t"          \
		     "msr fpcr, xzr\n\tstr q2, %[c]\n\tstr x0, %[x]\n\tstr x1, %[flags]"     \
		     : [c] "+m"(m->c), [x] "+m"(m->x), [flags] "=m"(m->flags)                \
		     : [a] "m"(m->a), [b] "m"(m->b), [mode] "r"(m->mode)                     \
		     : "x0", "x1", "v0", "v1", "v2", "cc")
#define MODE (below(4) << 22 | (below(4) ? 0 : 1 << 24) | (below(4) ? 0 : 1 << 25))
#define CASES(X)                                                                             \
	X('d', "fadd d2, d0, d1") X('d', "fsub d2, d0, d1") X('d', "fmul d2, d0, d1")        \
	X('d', "fdiv d2, d0, d1") X('d', "fsqrt d2, d0") X('d', "fnmul d2, d0, d1")          \
	X('d', "fmadd d2, d0, d1, d2") X('d', "fmsub d2, d0, d1, d2")                        \
	X('d', "fnmadd d2, d0, d1, d2") X('d', "fnmsub d2, d0, d1, d2")                      \
	X('d', "fmin d2, d0, d1") X('d', "fmax d2, d0, d1") X('d', "fminnm d2, d0, d1")      \
	X('d', "fmaxnm d2, d0, d1") X('d', "fabd d2, d0, d1") X('d', "fmulx d2, d0, d1")     \
	X('d', "frecps d2, d0, d1") X('d', "frsqrts d2, d0, d1") X('d', "frecpe d2, d0")     \
	X('d', "frsqrte d2, d0") X('d', "frecpx d2, d0") X('d', "fcvt s2, d0")               \
	X('d', "fcvt h2, d0") X('d', "fcvtxn s2, d0") X('s', "fcvt d2, s0")                  \
	X('s', "fcvt h2, s0") X('h', "fcvt s2, h0") X('h', "fcvt d2, h0")                    \
	X('s', "fadd s2, s0, s1") X('s', "fsub s2, s0, s1") X('s', "fmul s2, s0, s1")        \
	X('s', "fdiv s2, s0, s1") X('s', "fsqrt s2, s0") X('s', "fmadd s2, s0, s1, s2")      \
	X('s', "fmin s2, s0, s1") X('s', "fmaxnm s2, s0, s1") X('s', "fmulx s2, s0, s1")     \
	X('s', "frecps s2, s0, s1") X('s', "frsqrts s2, s0, s1") X('s', "frecpe s2, s0")     \
	X('s', "frsqrte s2, s0") X('s', "frecpx s2, s0")                                     \
	X('d', "frintn d2, d0") X('d', "frintx d2, d0") X('d', "frinti d2, d0")              \
	X('s', "frintm s2, s0") X('s', "frintx s2, s0") X('s', "frinta s2, s0")              \
	X('d', "fcvtzs x0, d0") X('d', "fcvtzu w0, d0") X('d', "fcvtns x0, d0")              \
	X('d', "fcvtas w0, d0") X('d', "fcvtmu x0, d0") X('s', "fcvtzs w0, s0")              \
	X('s', "fcvtpu x0, s0") X('d', "fcvtzs x0, d0, #5") X('d', "scvtf d2, x0")           \
	X('d', "ucvtf d2, x0") X('s', "scvtf s2, x0") X('s', "ucvtf s2, w0")                 \
	X('s', "scvtf s2, x0, #9") X('d', "fcmp d0, d1\n\tmrs x0, nzcv")                     \
	X('d', "fcmpe d0, d1\n\tmrs x0, nzcv") X('s', "fcmp s0, s1\n\tmrs x0, nzcv")         \
	X('s', "fcmpe s0, #0.0\n\tmrs x0, nzcv") X('d', "fcmeq d2, d0, d1")                  \
	X('d', "fcmgt d2, d0, d1") X('d', "facge d2, d0, d1") X('s', "fcmge s2, s0, s1")     \
	X('d', "fadd v2.2d, v0.2d, v1.2d") X('s', "fadd v2.4s, v0.4s, v1.4s")                \
	X('s', "fmul v2.4s, v0.4s, v1.4s") X('s', "fdiv v2.4s, v0.4s, v1.4s")                \
	X('s', "fsqrt v2.4s, v0.4s") X('s', "fmla v2.4s, v0.4s, v1.4s")                      \
	X('d', "fmls v2.2d, v0.2d, v1.2d") X('s', "faddp v2.4s, v0.4s, v1.4s")               \
	X('s', "fmaxp v2.4s, v0.4s, v1.4s") X('s', "fmaxnmv s2, v0.4s")                      \
	X('s', "fminv s2, v0.4s") X('s', "fcvtl v2.2d, v0.2s") X('d', "fcvtn v2.2s, v0.2d")  \
	X('h', "fcvtl v2.4s, v0.4h") X('s', "fcvtn v2.4h, v0.4s")                            \
	X('s', "fcvtzs v2.4s, v0.4s") X('d', "fcvtas v2.2d, v0.2d")                          \
	X('s', "scvtf v2.4s, v0.4s") X('s', "frintx v2.4s, v0.4s")                           \
	X('s', "frecpe v2.4s, v0.4s") X('s', "fcmgt v2.4s, v0.4s, v1.4s")                    \
	X('s', "fmulx v2.4s, v0.4s, v1.s[1]") X('i', "urecpe v2.4s, v0.4s")                  \
	X('i', "sqadd v2.4s, v0.4s, v1.4s") X('i', "uqsub v2.16b, v0.16b, v1.16b")           \
	X('i', "sqrdmulh v2.8h, v0.8h, v1.8h") X('i', "sqshl v2.2d, v0.2d, v1.2d")           \
	X('i', "sqxtn v2.4h, v0.4s") X('i', "sqdmull v2.4s, v0.4h, v1.4h")                   \
	X('i', "uqrshl v2.4s, v0.4s, v1.4s") X('i', "suqadd v2.4s, v0.4s")
#else
#define DO(insn)                                                                             \
	asm volatile("fld fa0, %[a]\n\tfld fa1, %[b]\n\tfld fa2, %[c]\n\tld a0, %[x]\n\t"      \
		     "slli t0, %[mode], 5\n\tfscsr t0\n\t" insn "\n\tfrcsr t0\n\t"           \
		     "fsd fa2, %[c]\n\tsd a0, %[x]\n\tsd t0, %[flags]\n\tfscsr zero"         \
		     : [c] "+m"(m->c), [x] "+m"(m->x), [flags] "=m"(m->flags)                \
		     : [a] "m"(m->a), [b] "m"(m->b), [mode] "r"(m->mode)                     \
		     : "a0", "t0", "fa0", "fa1", "fa2")
#define MODE below(5)
#define CASES(X)                                                                             \
	X('d', "fadd.d fa2, fa0, fa1") X('d', "fsub.d fa2, fa0, fa1")                        \
	X('d', "fmul.d fa2, fa0, fa1") X('d', "fdiv.d fa2, fa0, fa1") X('d', "fsqrt.d fa2, fa0") \
	X('d', "fmadd.d fa2, fa0, fa1, fa2") X('d', "fmsub.d fa2, fa0, fa1, fa2")            \
	X('d', "fnmadd.d fa2, fa0, fa1, fa2") X('d', "fnmsub.d fa2, fa0, fa1, fa2")          \
	X('d', "fmin.d fa2, fa0, fa1") X('d', "fmax.d fa2, fa0, fa1")                        \
	X('d', "feq.d a0, fa0, fa1") X('d', "flt.d a0, fa0, fa1") X('d', "fle.d a0, fa0, fa1") \
	X('d', "fclass.d a0, fa0") X('d', "fcvt.s.d fa2, fa0") X('b', "fcvt.d.s fa2, fa0")   \
	X('d', "fcvt.w.d a0, fa0") X('d', "fcvt.wu.d a0, fa0, rtz") X('d', "fcvt.l.d a0, fa0") \
	X('d', "fcvt.lu.d a0, fa0") X('d', "fcvt.lu.d a0, fa0, rup") X('i', "fcvt.d.l fa2, a0") \
	X('i', "fcvt.d.lu fa2, a0") X('i', "fcvt.s.w fa2, a0") X('i', "fcvt.s.wu fa2, a0")   \
	X('i', "fcvt.s.l fa2, a0") X('i', "fcvt.s.lu fa2, a0") X('b', "fadd.s fa2, fa0, fa1") \
	X('b', "fsub.s fa2, fa0, fa1") X('b', "fmul.s fa2, fa0, fa1")                        \
	X('b', "fdiv.s fa2, fa0, fa1") X('b', "fsqrt.s fa2, fa0")                            \
	X('b', "fmadd.s fa2, fa0, fa1, fa2") X('b', "fnmsub.s fa2, fa0, fa1, fa2")           \
	X('b', "fmin.s fa2, fa0, fa1") X('b', "fmax.s fa2, fa0, fa1")                        \
	X('b', "feq.s a0, fa0, fa1") X('b', "flt.s a0, fa0, fa1") X('b', "fle.s a0, fa0, fa1") \
	X('b', "fclass.s a0, fa0") X('b', "fcvt.w.s a0, fa0") X('b', "fcvt.lu.s a0, fa0, rmm") \
	X('b', "fsgnj.s fa2, fa0, fa1") X('s', "fmv.x.w a0, fa0")
#endif

#define CASE(kind, insn)                       \
	{                                      \
		if (nr++ == wanted) {          \
			fill(m, kind);         \
			before(m, insn);       \
			DO(insn);              \
		}                              \
	}
#define ONE(kind, insn) +1

static void fill(struct machine *m, char kind)
{
	for (int i = 0; i < 2; i++) {
		m->a[i] = operand(kind == 'b' ? 's' : kind);
		m->b[i] = operand(kind == 'b' ? 's' : kind);
		m->c[i] = operand(kind == 'b' ? 's' : kind);
	}
	if (kind == 'b') /* boxed: a narrow number with ones before it */
		for (int i = 0; i < 2; i++) {
			m->a[i] |= 0xffffffff00000000;
			m->b[i] |= 0xffffffff00000000;
			m->c[i] |= 0xffffffff00000000;
		}
	m->x = operand('i');
	m->mode = MODE;
}

static void before(const struct machine *m, const char *insn)
{
	printf("%.*s %lx %lx:%lx %lx:%lx %lx:%lx %lx |", (int)strcspn(insn, "\n"), insn, m->mode,
	       m->a[1], m->a[0], m->b[1], m->b[0], m->c[1], m->c[0], m->x);
}

int main(int argc, char **argv)
{
	struct machine machine, *m = &machine;

	if (argc != 3)
		return 2;
	state = strtoull(argv[1], 0, 0);
	for (long i = atol(argv[2]); i; i--) {
		uint64_t wanted = below(0 CASES(ONE)), nr = 0;

		CASES(CASE)
		printf(" %lx:%lx %lx %lx\n", m->c[1], m->c[0], m->x, m->flags);
	}
	return 0;
}
