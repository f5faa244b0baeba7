// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Exceptions and results of the x87's instructions.
 *
 * libunicorn computes with a state of its own (struct status), and what is raised there hardly ever
 * comes to the status word. It computes logarithms and the like as doubles, and raises an exception
 * only at fwait. The functions here take the place of libunicorn's, as blocks.c tells. Those that show
 * the status word fill it in before. On hosts of x86-64 the host's own x87 computes, with the guest's
 * control word. An exception that is not masked is raised by the next instruction of the x87, as on a
 * processor.
 *
 * One instruction may be several functions: that which loads an operand from memory (to FT0) comes
 * before that which computes, and the one that pops comes last and looks for no exception.
 */
#include "originals.h"
#include "softfloat.h"

#define CR0_NE 0x20
#define SUMMARY 0x8080
#define MF 16

static raise_in_block *raise_exception;

static inline uint16_t *status_word(void *state)
{
	return &X86(state)->status_word;
}

static inline struct status *status(void *state)
{
	return &X86(state)->x87;
}

static void set_summary(void *state)
{
	if (*status_word(state) & ~X86(state)->control_word & EXCEPTIONS)
		*status_word(state) |= SUMMARY;
	else
		*status_word(state) &= ~SUMMARY;
}

void show_x87(void *state)
{
	if (!known)
		return;
	*status_word(state) |= shown(status(state)->raised);
	status(state)->raised = 0;
	set_summary(state);
}

static void forget(void *state)
{
	if (known)
		status(state)->raised = 0;
}

/* Each jumps to the original, which may raise exceptions of its caller. */
#define WITH_STATUS(name, first)                                                       \
	static void (*of_##name)(void *state, uint64_t a, uint64_t b);                 \
	API void helper_##name##_x86_64(void *state, uint64_t a, uint64_t b)           \
	{                                                                              \
		first(state);                                                          \
		of_##name(state, a, b);                                                \
	}
#define WITH_STATUSES(X)                                                               \
	X(fstenv, show_x87) X(fsave, show_x87) X(fwait, show_x87) X(fxrstor, forget)   \
	X(xrstor, forget) X(fclex, forget) X(fninit, forget)

WITH_STATUSES(WITH_STATUS)

static uint64_t (*of_fnstsw)(void *state);

API uint64_t helper_fnstsw_x86_64(void *state)
{
	show_x87(state);
	return of_fnstsw(state);
}

#define HELPER(name, ...) ORIGINAL("helper_" #name "_x86_64", of_##name),

#ifdef __x86_64__

#define C0 0x100
#define C1 0x200
#define C2 0x400
#define C3 0x4000
#define CONDITIONS (C0 | C1 | C2 | C3)
#define QUIET (1ull << 62) /* in the fraction of a NaN */
#define OF_OPERANDS (INVALID | DENORMAL | DIVIDE)
#define CF 1
#define PF 4
#define ZF 0x40

static inline struct number *st(void *state, uint32_t number)
{
	uint32_t at = (X86(state)->top + number) & 7;

	return &X86(state)->st[at];
}

/* Copied in two pieces, as the x87 stores it: the processor then need not wait for the stores. */
static inline struct number copied(const struct number *n)
{
	return (struct number){ n->fraction, n->high };
}

static inline bool is_nan(const struct number *n)
{
	return (n->high & 0x7fff) == 0x7fff && n->fraction << 1;
}

static void push(void *state)
{
	uint32_t top = (X86(state)->top - 1) & 7;

	X86(state)->top = top;
	X86(state)->empty[top] = 0;
}

static void pop(void *state)
{
	uint32_t top = X86(state)->top;

	X86(state)->empty[top] = 1;
	X86(state)->top = (top + 1) & 7;
}

/* Raise what an instruction before has left. */
static inline void begin(void *state, uintptr_t caller)
{
	const uint16_t word = *status_word(state);

	if (known && word & ~X86(state)->control_word & EXCEPTIONS && X86(state)->cr[0] & CR0_NE) {
		show_x87(state);
		raise_exception(state, MF, caller);
	}
}

/*
 * Take the status word that the host's x87 has left; return whether there is a result. conditions:
 * the bits that the instruction sets.
 */
static bool finish(void *state, uint16_t word, uint16_t conditions)
{
	uint16_t control = X86(state)->control_word;

	*status_word(state) = (*status_word(state) & ~conditions) |
			      (word & (conditions | EXCEPTIONS));
	set_summary(state);
	return !(word & ~control & OF_OPERANDS);
}

/* Add what was raised when FT0 was loaded, unless it had a lower priority. */
static uint16_t with_load(void *state, const struct number *a, const struct number *b,
			  uint16_t word)
{
	uint16_t loaded = status(state)->raised;

	status(state)->raised = 0;
	if (word & (INVALID | DIVIDE) || is_nan(a) || is_nan(b))
		loaded &= ~DENORMAL;
	if (loaded & ~X86(state)->control_word) /* nothing was computed */
		word &= OF_OPERANDS | C0 | C2 | C3;
	return word | loaded;
}

/*
 * Run instructions of the host's x87 with two numbers, of which a is on top, and a control word.
 * Nothing is left there. The status word comes before what stores results.
 */
#define ON_HOST(insn, store, ...)                                                            \
	asm volatile("fnstcw %[host]\n\tfninit\n\tfldcw %[control]\n\t"                      \
		     "fldt %[b]\n\tfldt %[a]\n\t" insn "\n\tfnstsw %[word]\n\tfnclex\n\t" store \
		     "\n\tfninit\n\tfldcw %[host]"                                           \
		     : [word] "=m"(word), [host] "=m"(host), ##__VA_ARGS__                   \
		     : [a] "m"(a), [b] "m"(b), [control] "m"(control) \
		     : "st", "st(1)", "st(2)", "st(3)", "st(4)", "st(5)", "st(6)", "st(7)")

/*
 * The same for most instructions, where all is masked and the modes are the host's own: several times
 * sooner. The stack of the host's x87 is empty between functions, and no flag is left.
 */
#define USUAL 0x37f
#define SOON(first, insn, store, last, ...)                                                  \
	asm volatile(first insn "\n\tfnstsw %[word]\n\t" store "\n\t" last                   \
		     : [word] "=m"(word), ##__VA_ARGS__                                      \
		     : [a] "m"(a), [b] "m"(b)                                                \
		     : "st", "st(1)", "st(2)", "st(3)", "st(4)", "st(5)", "st(6)", "st(7)"); \
	if (word & EXCEPTIONS)                                                               \
	asm volatile("fnclex")
#define ON_HOST_SOON(insn, store, ...)                                                       \
	SOON("fldt %[b]\n\tfldt %[a]\n\t", insn, store, "fstp %%st(0)", ##__VA_ARGS__)

#define ENTRY(name)                                                                          \
	static uint64_t (*of_##name)(void *state, uint64_t operand);                         \
	API uint64_t helper_##name##_x86_64(void *state, uint64_t operand)

/* Of two numbers, to the first of them. */
#define COMPUTE(name, first, second, insn, conditions, loads)                                \
	ENTRY(name)                                                                          \
	{                                                                                    \
		struct number *to = first, a = copied(to), b = copied(second), result;       \
		uint16_t word, host, control = X86(state)->control_word; \
                                                                                             \
		begin(state, CALLER);                                                        \
		if (!known)                                                                  \
			return of_##name(state, operand);                                    \
		if (control == USUAL) {                                                      \
			ON_HOST_SOON(insn, "fstpt %[result]", [result] "=m"(result));        \
		} else {                                                                     \
			ON_HOST(insn, "fstpt %[result]", [result] "=m"(result));             \
		}                                                                            \
		if (loads)                                                                   \
			word = with_load(state, &a, &b, word);                               \
		if (finish(state, word,                                                      \
			   (word & ~control & OF_OPERANDS) || is_nan(&result) ?                \
				   (conditions) & (C1 | C2) :                                \
				   (conditions)))                                            \
			*to = copied(&result);                                               \
		return 0;                                                                    \
	}
#define ARITHMETIC(X, name, insn)                                                            \
	X(name##_ST0_FT0, st(state, 0), &X86(state)->ft0, insn, C1, true)      \
	X(name##_STN_ST0, st(state, operand), st(state, 0), insn, C1, false)
#define UNARY(X, name, conditions) X(name, st(state, 0), to, #name, conditions, false)
#define COMPUTING(X)                                                                         \
	ARITHMETIC(X, fadd, "fadd %%st(1), %%st") ARITHMETIC(X, fmul, "fmul %%st(1), %%st")  \
	ARITHMETIC(X, fsub, "fsub %%st(1), %%st") ARITHMETIC(X, fsubr, "fsubr %%st(1), %%st") \
	ARITHMETIC(X, fdiv, "fdiv %%st(1), %%st") ARITHMETIC(X, fdivr, "fdivr %%st(1), %%st") \
	UNARY(X, fsqrt, C1) UNARY(X, frndint, C1) UNARY(X, f2xm1, C1)                        \
	UNARY(X, fsin, (C1 | C2)) UNARY(X, fcos, (C1 | C2))                                    \
	X(fscale, st(state, 0), st(state, 1), "fscale", C1, false)                          \
	X(fprem, st(state, 0), st(state, 1), "fprem", CONDITIONS, false)                    \
	X(fprem1, st(state, 0), st(state, 1), "fprem1", CONDITIONS, false)

COMPUTING(COMPUTE)

/* To the second of two numbers, and the first one goes. */
#define CONSUME(name)                                                                        \
	ENTRY(name)                                                                          \
	{                                                                                    \
		struct number *to = st(state, 1), a = *st(state, 0), b = *to, result;        \
		uint16_t word, host, control = X86(state)->control_word; \
                                                                                             \
		begin(state, CALLER);                                                        \
		if (!known)                                                                  \
			return of_##name(state, operand);                                    \
		ON_HOST(#name, "fstpt %[result]", [result] "=m"(result));                    \
		if (finish(state, word, C1)) {                                               \
			*to = result;                                                        \
			pop(state);                                                          \
		}                                                                            \
		return 0;                                                                    \
	}
#define CONSUMING(X) X(fyl2x) X(fyl2xp1) X(fpatan)

CONSUMING(CONSUME)

/* Of one number make two, unless it is too large (C2). */
#define EXPAND(name, conditions)                                                             \
	ENTRY(name)                                                                          \
	{                                                                                    \
		struct number *to = st(state, 0), a = *to, b = a, pushed, below;             \
		uint16_t word, host, control = X86(state)->control_word; \
                                                                                             \
		begin(state, CALLER);                                                        \
		if (!known)                                                                  \
			return of_##name(state, operand);                                    \
		ON_HOST(#name, "fstpt %[pushed]\n\tfstpt %[below]",                          \
			[pushed] "=m"(pushed), [below] "=m"(below));                         \
		if (finish(state, word, conditions) && !(word & conditions & C2)) {          \
			*to = below;                                                         \
			push(state);                                                         \
			*st(state, 0) = pushed;                                              \
		}                                                                            \
		return 0;                                                                    \
	}
#define EXPANDING(X) X(fptan, (C1 | C2)) X(fsincos, (C1 | C2)) X(fxtract, C1)

EXPANDING(EXPAND)

static uint16_t compare(void *state, bool quiet)
{
	struct number a = copied(st(state, 0)), b = copied(&X86(state)->ft0);
	uint16_t word, host, control = X86(state)->control_word;

	if (quiet)
		ON_HOST("fucom", "");
	else
		ON_HOST("fcom", "");
	return with_load(state, &a, &b, word);
}

#define COMPARE(name, quiet)                                                                 \
	ENTRY(name)                                                                          \
	{                                                                                    \
		begin(state, CALLER);                                                        \
		if (!known)                                                                  \
			return of_##name(state, operand);                                    \
		finish(state, compare(state, quiet), CONDITIONS);                            \
		return 0;                                                                    \
	}
#define COMPARE_TO_FLAGS(name, quiet)                                                        \
	ENTRY(name)                                                                          \
	{                                                                                    \
		uint16_t word;                                                               \
                                                                                             \
		begin(state, CALLER);                                                        \
		if (!known)                                                                  \
			return of_##name(state, operand);                                    \
		word = compare(state, quiet);                                                \
		finish(state, word, 0);                                                      \
		X86(state)->cc_src = (word & C0 ? CF : 0) | (word & C2 ? PF : 0) |  \
					      (word & C3 ? ZF : 0);                          \
		return 0;                                                                    \
	}
#define COMPARING(X) X(fcom_ST0_FT0, false) X(fucom_ST0_FT0, true)
#define COMPARING_TO_FLAGS(X) X(fcomi_ST0_FT0, false) X(fucomi_ST0_FT0, true)

COMPARING(COMPARE)
COMPARING_TO_FLAGS(COMPARE_TO_FLAGS)

/* A number of memory. If it is for FT0, what it raises waits for the instruction that computes. */
#define LOAD(name, type, insn)                                                               \
	static inline uint16_t load_##name(void *state, type operand, struct number *to)     \
	{                                                                                    \
		const struct number a = { 0 }, b = a;                                        \
		uint16_t word, host, control = X86(state)->control_word | EXCEPTIONS; \
                                                                                             \
		if (control == USUAL) {                                                      \
			SOON("", insn " %[operand]", "fstpt %[to]", "", [to] "=m"(*to),      \
			     [operand] "+m"(operand));                                       \
		} else {                                                                     \
			ON_HOST(insn " %[operand]", "fstpt %[to]", [to] "=m"(*to),           \
				[operand] "+m"(operand));                                    \
		}                                                                            \
		return word;                                                                 \
	}                                                                                    \
	ENTRY(name##_FT0)                                                                    \
	{                                                                                    \
		struct number *to = &X86(state)->ft0;                          \
		uint16_t loaded;                                                             \
                                                                                             \
		begin(state, CALLER);                                                        \
		if (!known)                                                                  \
			return of_##name##_FT0(state, operand);                              \
		loaded = load_##name(state, operand, to);                                    \
		if (loaded & INVALID) /* signaling as it was, it raises that again */        \
			to->fraction &= ~QUIET;                                              \
		status(state)->raised |= loaded & DENORMAL;                                  \
		return 0;                                                                    \
	}                                                                                    \
	ENTRY(name##_ST0)                                                                    \
	{                                                                                    \
		struct number number;                                                        \
		uint16_t word;                                                               \
                                                                                             \
		begin(state, CALLER);                                                        \
		if (!known)                                                                  \
			return of_##name##_ST0(state, operand);                              \
		word = load_##name(state, operand, &number);                                 \
		finish(state, word, C1);                                                     \
		if (!(word & ~X86(state)->control_word & INVALID)) {                \
			push(state);                                                         \
			*st(state, 0) = copied(&number);                                     \
		}                                                                            \
		return 0;                                                                    \
	}

LOAD(flds, uint32_t, "flds")
LOAD(fldl, uint64_t, "fldl")

#define CONSTANT(name)                                                                       \
	ENTRY(name##_ST0)                                                                    \
	{                                                                                    \
		const struct number a = { 0 }, b = a;                                        \
		uint16_t word, host, control = X86(state)->control_word; \
                                                                                             \
		if (!known)                                                                  \
			return of_##name##_ST0(state, operand);                              \
		ON_HOST(#name, "fstpt %[to]", [to] "=m"(*st(state, 0)));                     \
		finish(state, word, C1);                                                     \
		return 0;                                                                    \
	}
#define CONSTANTS(X) X(fldl2t) X(fldl2e) X(fldpi) X(fldlg2) X(fldln2)

CONSTANTS(CONSTANT)

#define STORE(name, type, insn)                                                              \
	ENTRY(name##_ST0)                                                                    \
	{                                                                                    \
		struct number a = copied(st(state, 0)), b = a;                               \
		uint16_t word, host, control = X86(state)->control_word; \
		type stored = 0;                                                             \
                                                                                             \
		begin(state, CALLER);                                                        \
		if (!known)                                                                  \
			return of_##name##_ST0(state, operand);                              \
		if (control == USUAL) {                                                      \
			ON_HOST_SOON(insn " %[stored]", "", [stored] "+m"(stored));          \
		} else {                                                                     \
			ON_HOST(insn " %[stored]", "", [stored] "+m"(stored));               \
		}                                                                            \
		finish(state, word, C1);                                                     \
		return (uint64_t)stored;                                                     \
	}
#define STORES(X)                                                                            \
	X(fsts, uint32_t, "fstps") X(fstl, uint64_t, "fstpl")                                \
	X(fist, int16_t, "fistps") X(fistl, int32_t, "fistpl") X(fistll, int64_t, "fistpll") \
	X(fistt, int16_t, "fisttps") X(fisttl, int32_t, "fisttpl") X(fisttll, int64_t, "fisttpll")

STORES(STORE)

/* Others that raise what is left. Those with C1 clear it. */
#define FIRST(name, bits)                                                                    \
	ENTRY(name)                                                                          \
	{                                                                                    \
		begin(state, CALLER);                                                        \
		if (known)                                                                   \
			*status_word(state) &= ~(bits);                                      \
		return of_##name(state, operand);                                            \
	}
#define FIRSTS(X)                                                                            \
	X(fpush, C1) X(fmov_FT0_STN, 0) X(fmov_ST0_STN, 0) X(fmov_STN_ST0, C1)               \
	X(fxchg_ST0_STN, C1) X(fchs_ST0, C1) X(fabs_ST0, C1) X(fldz_FT0, 0)                  \
	X(fildl_FT0, 0) X(fildl_ST0, C1) X(fildll_ST0, C1) X(fldt_ST0, C1) X(fstt_ST0, C1)   \
	X(fbld_ST0, C1) X(fbst_ST0, C1) X(ffree_STN, C1)        \
	X(fldcw, 0) X(fldenv, 0) X(frstor, 0) X(emms, 0) X(enter_mmx, 0)

FIRSTS(FIRST)

/* libunicorn knows neither an empty register nor a number that a processor does not support. */
ENTRY(fxam_ST0)
{
	const struct number *n = st(state, 0);
	const uint8_t empty = X86(state)->empty[X86(state)->top];
	const bool supported = !(n->high & 0x7fff) || n->fraction >> 63;

	begin(state, CALLER);
	of_fxam_ST0(state, operand);
	if (!known || (!empty && supported))
		return 0;
	*status_word(state) &= ~(C0 | C2 | C3);
	if (empty)
		*status_word(state) |= C0 | C3;
	return 0;
}

/* libunicorn clears the other conditions, too. */
#define ROTATE(name, distance)                                                               \
	ENTRY(name)                                                                          \
	{                                                                                    \
		begin(state, CALLER);                                                        \
		if (!known)                                                                  \
			return of_##name(state, operand);                                    \
		*status_word(state) &= ~C1;                                                  \
		X86(state)->top = (X86(state)->top + (distance)) & 7;      \
		return 0;                                                                    \
	}
#define ROTATING(X) X(fincstp, 1) X(fdecstp, -1)

ROTATING(ROTATE)

#define BOTH(name, ...) HELPER(name##_ST0) HELPER(name##_FT0)
#define OF_ST0(name, ...) HELPER(name##_ST0)
#define ON_THIS_HOST                                                                         \
	COMPUTING(HELPER) CONSUMING(HELPER) EXPANDING(HELPER) COMPARING(HELPER)              \
	COMPARING_TO_FLAGS(HELPER) BOTH(flds) BOTH(fldl) CONSTANTS(OF_ST0) STORES(OF_ST0)    \
	FIRSTS(HELPER) HELPER(fxam_ST0) ROTATING(HELPER)
#else
#define LOADING(X) X(fldenv, forget) X(frstor, forget) X(fldcw, show_x87)

LOADING(WITH_STATUS)

#define ON_THIS_HOST LOADING(HELPER)
#endif

ORIGINALS(WITH_STATUSES(HELPER) HELPER(fnstsw)
		  ON_THIS_HOST ORIGINAL("raise_exception_ra_x86_64", raise_exception));
