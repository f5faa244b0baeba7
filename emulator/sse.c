// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Exceptions, special operands and modes of the SSE instructions of x86-64.
 *
 * libunicorn computes with a state of its own (struct status). What is raised there never comes to
 * MXCSR, no exception ever reaches a program, and "flush to zero" goes to the x87's state. It does
 * not know the denormal exception, and chooses between two NaNs as the x87 does. The functions here
 * take the place of libunicorn's, as blocks.c tells, on three levels:
 *
 *   arithmetic     of two numbers: where an operand is a NaN, zero or denormal, or if underflow is
 *                  unmasked, this looks, and else jumps to the original
 *   instructions   those that compute: if an exception is unmasked, they are tried, and undone if
 *                  they raise it; else a jump
 *   MXCSR          before it is stored, it gets what was raised; when it is loaded, the state does
 *
 * stmxcsr is the one instruction without a function: libunicorn makes it a load of MXCSR from the
 * state of the processor. So whoever emits such a load first emits a call. libunicorn takes only
 * functions for that which it knows, so it is the one for stgi, an instruction that no guest has.
 *
 * Only the slow paths use what is known of the inside of libunicorn (layout.h).
 */
#include "originals.h"
#include "softfloat.h"

#define DENORMALS_ARE_ZERO 0x40
#define MASKS 0x1f80
#define MASK_SHIFT 7
#define FLUSH_TO_ZERO 0x8000
#define RESERVED 0xffff0000
#define CR4_OSXMMEXCPT 0x400
#define UD 6
#define GP 13
#define XM 19
#define NOT_INEXACT 8 /* in the immediate byte of roundss and the like */

static inline uint32_t *mxcsr(void *state)
{
	return &X86(state)->mxcsr;
}

static inline struct status *sse(void *state)
{
	return &X86(state)->sse;
}

static raise_in_block *raise_exception;

/*
 * Arithmetic. In the state of SSE precision means nothing, so it tells here which exceptions are
 * unmasked of those that results raise. Then a tiny result raises UNDERFLOW even if it is exact, and
 * a result is INEXACT only if it needs more bits than there are, whatever its exponent.
 */
#define OF_RESULTS (OVERFLOW | UNDERFLOW)

#define NUMBERS(n, fraction)                                                                  \
	static inline uint##n##_t exponent##n(uint##n##_t x)                                  \
	{                                                                                     \
		return x << 1 >> (fraction + 1);                                              \
	}                                                                                     \
	static inline bool is_nan##n(uint##n##_t x)                                           \
	{                                                                                     \
		return (uint##n##_t)(x << 1) > (uint##n##_t)(~(uint##n##_t)0 << (fraction + 1)); \
	}                                                                                     \
	static inline bool is_denormal##n(uint##n##_t x)                                      \
	{                                                                                     \
		return !exponent##n(x) && x << 1;                                             \
	}                                                                                     \
	/* whether it is a NaN, infinite, denormal or zero */                                 \
	static inline bool is_special##n(uint##n##_t x)                                       \
	{                                                                                     \
		const uint##n##_t one = (uint##n##_t)1 << fraction;                           \
                                                                                              \
		return !((x + one) << 1 >> (fraction + 2));                                   \
	}                                                                                     \
	/* the first of two operands that is a NaN; it is quiet then */                       \
	static uint##n##_t choose_nan##n(uint##n##_t a, uint##n##_t b, struct status *s)      \
	{                                                                                     \
		const uint##n##_t quiet = (uint##n##_t)1 << (fraction - 1);                   \
                                                                                              \
		if ((is_nan##n(a) && !(a & quiet)) || (is_nan##n(b) && !(b & quiet)))         \
			s->raised |= INVALID;                                                 \
		return (is_nan##n(a) ? a : b) | quiet;                                        \
	}                                                                                     \
	static inline void note_operands##n(uint##n##_t a, uint##n##_t b, struct status *s)   \
	{                                                                                     \
		if (known && (is_denormal##n(a) || is_denormal##n(b)) && !s->flush_operands)  \
			s->raised |= DENORMAL;                                                \
	}                                                                                     \
	/* its digits from the first that is not 0 to the last; 0 has none */                  \
	static inline uint64_t digits##n(uint##n##_t x)                                       \
	{                                                                                     \
		const uint64_t one = 1ull << fraction;                                        \
		uint64_t all = (x & (one - 1)) | (exponent##n(x) ? one : 0);                  \
                                                                                              \
		return all ? all >> __builtin_ctzll(all) : 0;                                 \
	}                                                                                     \
	/* whether so many digits fit into a number */                                        \
	static inline bool fits##n(unsigned __int128 digits)                                  \
	{                                                                                     \
		return !(digits >> (fraction + 1));                                           \
	}                                                                                     \
	static bool exact_mul##n(uint##n##_t a, uint##n##_t b)                                \
	{                                                                                     \
		return fits##n((unsigned __int128)digits##n(a) * digits##n(b));               \
	}                                                                                     \
	static bool exact_div##n(uint##n##_t a, uint##n##_t b)                                \
	{                                                                                     \
		return !digits##n(b) || digits##n(a) % digits##n(b) == 0;                     \
	}                                                                                     \
	/* of a sum that overflows: both are normal, and of one sign */                       \
	static bool exact_add##n(uint##n##_t a, uint##n##_t b)                                \
	{                                                                                     \
		const uint64_t one = 1ull << fraction;                                        \
		int distance = exponent##n(a) - exponent##n(b);                               \
		uint64_t first = (a & (one - 1)) | one, second = (b & (one - 1)) | one;       \
		unsigned __int128 sum;                                                        \
                                                                                              \
		if (distance < -fraction || distance > fraction)                              \
			return false;                                                         \
		sum = ((unsigned __int128)first << (distance > 0 ? distance : 0)) +           \
		      ((unsigned __int128)second << (distance < 0 ? -distance : 0));          \
		while (!(sum & 1))                                                            \
			sum >>= 1;                                                            \
		return fits##n(sum);                                                          \
	}                                                                                     \
	/* whether it is normal, but neither the smallest nor the largest */                  \
	static inline bool is_ordinary##n(uint##n##_t x)                                      \
	{                                                                                     \
		const uint##n##_t largest = ~(uint##n##_t)0 >> (fraction + 1);                \
                                                                                              \
		return (uint##n##_t)(exponent##n(x) - 2) < largest - 3;                       \
	}                                                                                     \
	static inline void note_result##n(uint##n##_t result, struct status *s)               \
	{                                                                                     \
		if (s->precision & UNDERFLOW && is_denormal##n(result))                       \
			s->raised |= UNDERFLOW;                                               \
	}

NUMBERS(32, 23)
NUMBERS(64, 52)

union number32 {
	uint32_t bits;
	float value;
};
union number64 {
	uint64_t bits;
	double value;
};

/* Whether the host computes the same, and all that an ordinary result can raise is there. */
static inline bool as_on_host(const struct status *s)
{
	return known && s->raised & INEXACT && !s->rounding;
}

/* These raise nothing but INVALID where an operand is a NaN, or DIVIDE, before they look at others. */
#define BINARY(n, name, divides, operator, exact)                                               \
	static uint##n##_t (*of_##name##n)(uint##n##_t, uint##n##_t, struct status *);           \
	static __attribute__((noinline)) uint##n##_t special_##name##n(uint##n##_t a,            \
								       uint##n##_t b,            \
								       struct status *s)         \
	{                                                                                        \
		uint8_t before;                                                                  \
		uint##n##_t result;                                                              \
                                                                                                 \
		if (known && (is_nan##n(a) || is_nan##n(b)))                                     \
			return choose_nan##n(a, b, s);                                           \
		if (!(divides && !(uint##n##_t)(b << 1)))                                        \
			note_operands##n(a, b, s);                                               \
		if (!(s->precision & OF_RESULTS))                                                \
			return of_##name##n(a, b, s);                                            \
		before = s->raised;                                                              \
		s->raised = 0;                                                                   \
		result = of_##name##n(a, b, s);                                                  \
		note_result##n(result, s);                                                       \
		if (s->raised & s->precision & OF_RESULTS && exact##n(a, b))                     \
			s->raised &= ~INEXACT;                                                   \
		s->raised |= before;                                                             \
		return result;                                                                   \
	}                                                                                        \
	API uint##n##_t float##n##_##name##_x86_64(uint##n##_t a, uint##n##_t b, struct status *s) \
	{                                                                                        \
		union number##n x = { a }, y = { b }, result;                                    \
                                                                                                 \
		if (is_special##n(a) || is_special##n(b) || s->precision & OF_RESULTS)           \
			return special_##name##n(a, b, s);                                       \
		if (as_on_host(s)) {                                                             \
			result.value = x.value operator y.value;                                 \
			if (is_ordinary##n(result.bits))                                         \
				return result.bits;                                              \
		}                                                                                \
		return of_##name##n(a, b, s);                                                    \
	}

#define COMPARE(n, name)                                                                         \
	static int (*of_##name##n)(uint##n##_t, uint##n##_t, struct status *);                   \
	API int float##n##_##name##_x86_64(uint##n##_t a, uint##n##_t b, struct status *s)       \
	{                                                                                        \
		if ((is_denormal##n(a) || is_denormal##n(b)) && !is_nan##n(a) && !is_nan##n(b))  \
			note_operands##n(a, b, s);                                               \
		return of_##name##n(a, b, s);                                                    \
	}

#define SQUARE_ROOT(n)                                                                           \
	static uint##n##_t (*of_sqrt##n)(uint##n##_t, struct status *);                          \
	API uint##n##_t float##n##_sqrt_x86_64(uint##n##_t a, struct status *s)                  \
	{                                                                                        \
		if (is_denormal##n(a) && !(a >> (n - 1)))                                        \
			note_operands##n(a, a, s);                                               \
		return of_sqrt##n(a, s);                                                         \
	}

#define ARITHMETIC(X, n)                                                                         \
	X(n, add, false, +, exact_add) X(n, sub, false, -, exact_add)                            \
	X(n, mul, false, *, exact_mul) X(n, div, true, /, exact_div)
#define COMPARISONS(X, n)                                                                        \
	X(n, lt) X(n, le) X(n, eq_quiet) X(n, unordered_quiet) X(n, compare) X(n, compare_quiet)
#define FUNCTIONS(n) ARITHMETIC(BINARY, n) COMPARISONS(COMPARE, n) SQUARE_ROOT(n)

FUNCTIONS(32)
FUNCTIONS(64)

static uint64_t (*of_widen)(uint32_t, struct status *);
static uint32_t (*of_narrow)(uint64_t, struct status *);

API uint64_t float32_to_float64_x86_64(uint32_t a, struct status *s)
{
	if (is_denormal32(a))
		note_operands32(a, a, s);
	return of_widen(a, s);
}

API uint32_t float64_to_float32_x86_64(uint64_t a, struct status *s)
{
	uint32_t result;
	uint8_t before;

	if (is_denormal64(a))
		note_operands64(a, a, s);
	if (!(s->precision & OF_RESULTS))
		return of_narrow(a, s);
	before = s->raised;
	s->raised = 0;
	result = of_narrow(a, s);
	note_result32(result, s);
	if (s->raised & s->precision & OF_RESULTS && fits32(digits64(a)))
		s->raised &= ~INEXACT;
	s->raised |= before;
	return result;
}

/* MXCSR */

static void show(void *state)
{
	if (known)
		*mxcsr(state) |= shown(sse(state)->raised);
}

static void (*of_update)(void *state);

/* MXCSR is new. */
API void update_mxcsr_status_x86_64(void *state)
{
	struct status *x87 = &X86(state)->x87, *s = sse(state);
	uint8_t flush = x87->flush_results;
	uint32_t word = *mxcsr(state);

	of_update(state);
	if (!known)
		return;
	x87->flush_results = flush; /* libunicorn mistakes one state for the other */
	s->precision = ~word >> MASK_SHIFT & OF_RESULTS;
	s->flush_results = word & FLUSH_TO_ZERO && !(s->precision & UNDERFLOW);
	s->raised = word & EXCEPTIONS;
}

static void (*of_ldmxcsr)(void *state, uint32_t word);

API void helper_ldmxcsr_x86_64(void *state, uint32_t word)
{
	if (known && word & RESERVED)
		raise_exception(state, GP, (uintptr_t)__builtin_return_address(0));
	of_ldmxcsr(state, word);
}

/* These jump to the originals, which may raise exceptions of their caller. */
#define SAVE(name)                                                                         \
	static void (*of_##name)(void *state, uint64_t addr, uint64_t features);           \
	API void helper_##name##_x86_64(void *state, uint64_t addr, uint64_t features)     \
	{                                                                                  \
		show(state);                                                               \
		show_x87(state);                                                           \
		of_##name(state, addr, features);                                          \
	}

#define SAVES(X) X(fxsave) X(xsave) X(xsaveopt)

SAVES(SAVE)

/* This comes before stmxcsr. */
API void helper_stgi_x86_64(void *state)
{
	show(state);
}

static void (*of_emit)(void *translator, int operation, uint64_t to, uint64_t base,
		       uint64_t offset);
static void (*of_emit_call)(void *translator, void *function, void *result, int count,
			    void **arguments);

API void tcg_gen_op3_x86_64(void *translator, int operation, uint64_t to, uint64_t base,
			    uint64_t offset)
{
	if (known && operation == LOAD_WORD &&
	    offset == __builtin_offsetof(struct x86_state, mxcsr)) {
		void *state = (void *)base;

		of_emit_call(translator, (void *)helper_stgi_x86_64, 0, 1, &state);
	}
	of_emit(translator, operation, to, base, offset);
}

/* Instructions. */

static uint32_t is_unmasked(void *state)
{
	return shown(sse(state)->raised) & ~(*mxcsr(state) >> MASK_SHIFT);
}

/*
 * Of what was raised by one step, leave what a processor shows; return whether some of it is unmasked.
 * If that is of operands, it has computed nothing.
 */
static bool ends_here(void *state)
{
	const uint8_t of_operands = INVALID | DENORMAL | DIVIDE;
	uint32_t unmasked = is_unmasked(state);

	if (unmasked & of_operands)
		sse(state)->raised &= of_operands;
	return unmasked;
}

struct destination { uint64_t words[2]; };

/* Do an instruction, or raise an exception of it and leave its result. in_steps: it looks itself. */
static __attribute__((noinline)) uint64_t attempt(void *state, struct destination *to, void *from,
						  uint64_t immediate, instruction *original,
						  bool in_steps, uintptr_t caller)
{
	struct status *s = sse(state);
	struct destination before = *to;
	uint64_t cc_src = X86(state)->cc_src, result;
	uint8_t raised = s->raised;
	bool ends;

	if (!known)
		return original(state, to, from, immediate);
	s->raised = 0;
	result = original(state, to, from, immediate);
	ends = in_steps ? is_unmasked(state) : ends_here(state);
	s->raised |= raised;
	if (!ends)
		return result;
	*to = before;
	X86(state)->cc_src = cc_src;
	show(state);
	raise_exception(state, X86(state)->cr[4] & CR4_OSXMMEXCPT ? XM : UD, caller);
	return 0;
}

static inline bool all_masked(void *state)
{
	return !(~*mxcsr(state) & MASKS);
}

#define ENTRY(name)                                                                           \
	static instruction *of_##name;                                                        \
	API uint64_t helper_##name##_x86_64(void *state, void *to, void *from, uint64_t immediate)

#define COMPUTE(name)                                                                         \
	ENTRY(name)                                                                           \
	{                                                                                     \
		if (all_masked(state))                                                        \
			return of_##name(state, to, from, immediate);                         \
		return attempt(state, to, from, immediate, of_##name, false, CALLER);                \
	}

/* The result is one of the operands, as it was read. */
#define SELECT(name, n, count)                                                                \
	ENTRY(name)                                                                           \
	{                                                                                     \
		uint##n##_t *results = to;                                                    \
                                                                                              \
		if (all_masked(state) && !sse(state)->flush_operands)                         \
			return of_##name(state, to, from, immediate);                         \
		attempt(state, to, from, immediate, of_##name, false, CALLER);                       \
		if (known && sse(state)->flush_operands)                                      \
			for (int i = 0; i < count; i++)                                       \
				if (is_denormal##n(results[i]))                               \
					results[i] &= (uint##n##_t)1 << (n - 1);              \
		return 0;                                                                     \
	}

static uint64_t round_quietly(void *state, void *to, void *from, uint64_t immediate,
			      instruction *original)
{
	uint8_t raised = sse(state)->raised;
	uint64_t result;

	sse(state)->raised = 0;
	result = original(state, to, from, immediate);
	sse(state)->raised = (sse(state)->raised & ~INEXACT) | raised;
	return result;
}

#define ROUND(name)                                                                           \
	static instruction *of_##name;                                                        \
	static uint64_t quiet_##name(void *state, void *to, void *from, uint64_t immediate)   \
	{                                                                                     \
		return round_quietly(state, to, from, immediate, of_##name);                  \
	}                                                                                     \
	API uint64_t helper_##name##_x86_64(void *state, void *to, void *from, uint64_t immediate) \
	{                                                                                     \
		instruction *way = known && immediate & NOT_INEXACT ? quiet_##name : of_##name; \
                                                                                              \
		if (all_masked(state))                                                        \
			return way(state, to, from, immediate);                               \
		return attempt(state, to, from, immediate, way, false, CALLER);                      \
	}

/* libunicorn adds the products one after the other, and a processor two and two. */
#define DOT(name, n, count)                                                                   \
	static instruction *of_##name;                                                        \
	static uint64_t dot##n(void *state, void *to, void *from, uint64_t immediate)         \
	{                                                                                     \
		uint##n##_t *a = to, *b = from, sums[4] = { 0 };                              \
		struct status *s = sse(state);                                                \
		uint8_t raised = s->raised;                                                   \
                                                                                              \
		for (int i = 0; i < count; i++)                                               \
			if (immediate & 16 << i)                                              \
				sums[i] = float##n##_mul_x86_64(a[i], b[i], s);               \
		for (int step = 1; step < count && !ends_here(state); step *= 2) {            \
			raised |= s->raised;                                                  \
			s->raised = 0;                                                        \
			for (int i = 0; i < count; i += 2 * step)                             \
				sums[i] = float##n##_add_x86_64(sums[i], sums[i + step], s);  \
		}                                                                             \
		ends_here(state);                                                             \
		s->raised |= raised;                                                          \
		for (int i = 0; i < count; i++)                                               \
			a[i] = immediate & 1 << i ? sums[0] : 0;                              \
		return 0;                                                                     \
	}                                                                                     \
	API uint64_t helper_##name##_x86_64(void *state, void *to, void *from, uint64_t immediate) \
	{                                                                                     \
		instruction *way = known ? dot##n : of_##name;                                \
                                                                                              \
		if (all_masked(state))                                                        \
			return way(state, to, from, immediate);                               \
		return attempt(state, to, from, immediate, way, true, CALLER);                      \
	}

/* These raise nothing, and heed no mode. */
#define ESTIMATE(name)                                                                        \
	ENTRY(name)                                                                           \
	{                                                                                     \
		struct status *s = sse(state), before = *s;                                   \
		uint64_t result;                                                              \
                                                                                              \
		if (!known)                                                                   \
			return of_##name(state, to, from, immediate);                         \
		*s = (struct status){ .flush_results = true, .flush_operands = true };        \
		result = of_##name(state, to, from, immediate);                               \
		*s = before;                                                                  \
		return result;                                                                \
	}

#define EACH(X, name) X(name##ps) X(name##pd) X(name##ss) X(name##sd)
#define OF_TWO(X)                                                                             \
	EACH(X, add) EACH(X, sub) EACH(X, mul) EACH(X, div) EACH(X, sqrt)                     \
	X(addsubps) X(addsubpd) X(haddps) X(haddpd) X(hsubps) X(hsubpd)
#define DOTS(X) X(dpps_xmm, 32, 4) X(dppd_xmm, 64, 2)
#define COMPARING(X)                                                                          \
	EACH(X, cmpeq) EACH(X, cmplt) EACH(X, cmple) EACH(X, cmpunord)                        \
	EACH(X, cmpneq) EACH(X, cmpnlt) EACH(X, cmpnle) EACH(X, cmpord)                       \
	X(comiss) X(comisd) X(ucomiss) X(ucomisd)
#define CONVERTING(X)                                                                         \
	X(cvtps2pd) X(cvtpd2ps) X(cvtss2sd) X(cvtsd2ss) X(cvtdq2ps) X(cvtpi2ps)               \
	X(cvtsi2ss) X(cvtsq2ss) X(cvtsq2sd) X(cvtps2dq) X(cvtpd2dq)                           \
	X(cvtps2pi) X(cvtpd2pi) X(cvtss2si) X(cvtsd2si) X(cvtss2sq) X(cvtsd2sq)               \
	X(cvttps2dq) X(cvttpd2dq) X(cvttps2pi) X(cvttpd2pi)                                   \
	X(cvttss2si) X(cvttsd2si) X(cvttss2sq) X(cvttsd2sq)
#define SELECTING(X)                                                                          \
	X(minps, 32, 4) X(maxps, 32, 4) X(minss, 32, 1) X(maxss, 32, 1)                       \
	X(minpd, 64, 2) X(maxpd, 64, 2) X(minsd, 64, 1) X(maxsd, 64, 1)
#define ROUNDING(X) X(roundps_xmm) X(roundpd_xmm) X(roundss_xmm) X(roundsd_xmm)
#define ESTIMATING(X) X(rcpps) X(rcpss) X(rsqrtps) X(rsqrtss)

OF_TWO(COMPUTE)
DOTS(DOT)
COMPARING(COMPUTE)
CONVERTING(COMPUTE)
SELECTING(SELECT)
ROUNDING(ROUND)
ESTIMATING(ESTIMATE)

#define HELPER(name, ...) ORIGINAL("helper_" #name "_x86_64", of_##name),
#define FLOAT(n, name, ...) ORIGINAL("float" #n "_" #name "_x86_64", of_##name##n),

ORIGINALS(OF_TWO(HELPER) DOTS(HELPER) COMPARING(HELPER) CONVERTING(HELPER) SELECTING(HELPER)
		  ROUNDING(HELPER) ESTIMATING(HELPER) SAVES(HELPER) HELPER(ldmxcsr)
			  ARITHMETIC(FLOAT, 32) COMPARISONS(FLOAT, 32) FLOAT(32, sqrt)
				  ARITHMETIC(FLOAT, 64) COMPARISONS(FLOAT, 64) FLOAT(64, sqrt)
					  ORIGINAL("float32_to_float64_x86_64", of_widen),
	  ORIGINAL("float64_to_float32_x86_64", of_narrow),
	  ORIGINAL("update_mxcsr_status_x86_64", of_update),
	  ORIGINAL("tcg_gen_op3_x86_64", of_emit), ORIGINAL("tcg_gen_callN_x86_64", of_emit_call),
	  ORIGINAL("raise_exception_ra_x86_64", raise_exception));
