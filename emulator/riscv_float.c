// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Leave narrow numbers in wide registers as processors of riscv64 do: with ones in the upper half.
 * libunicorn's instructions leave zeroes there. Of a number and a signaling NaN, the least or greatest
 * is the number; libunicorn gives a NaN. Zero times infinity is invalid whatever is added to it. The functions here take the place of its own, as blocks.c
 * tells.
 *
 * An operand without these ones would count as a NaN. Here its lower half counts, as libunicorn does
 * fabs.s and fsgnjx.s without a function, and they leave one.
 */
#include "engines.h"
#include "originals.h"

#define BOX 0xffffffff00000000
#define INFINITY_32 0x7f800000u
#define INFINITY_64 0x7ff0000000000000ull

static inline bool is_nan32(uint64_t number)
{
	return (number & 0x7fffffff) > INFINITY_32;
}

static inline bool is_nan64(uint64_t number)
{
	return number << 1 > INFINITY_64 << 1;
}

static inline bool is_product_invalid32(uint32_t a, uint32_t b)
{
	return (!(a << 1) && b << 1 == INFINITY_32 << 1) ||
	       (!(b << 1) && a << 1 == INFINITY_32 << 1);
}

static inline bool is_product_invalid64(uint64_t a, uint64_t b)
{
	return (!(a << 1) && b << 1 == INFINITY_64 << 1) ||
	       (!(b << 1) && a << 1 == INFINITY_64 << 1);
}

typedef uint64_t operation(void *state, uint64_t a, uint64_t b, uint64_t c);

#define ENTRY(name)                    \
	static operation *of_##name;   \
	API uint64_t helper_f##name##_riscv64(void *state, uint64_t a, uint64_t b, uint64_t c)

#define NARROW(name)                                \
	ENTRY(name)                                 \
	{                                           \
		return of_##name(state, a, b, c) | BOX; \
	}

/* The original raises the exception. */
#define CHOOSE(name, n, box)                                              \
	ENTRY(name)                                                           \
	{                                                                     \
		uint64_t result = of_##name(state, a, b, c);  \
                                                                              \
		if (is_nan##n(a) != is_nan##n(b))                             \
			result = is_nan##n(a) ? b : a;                        \
		return result | box;                                          \
	}

/* A product raises the exception, where a NaN is added. */
#define FUSE(name, n, box)                                                    \
	ENTRY(name)                                                           \
	{                                                                     \
		if (is_nan##n(c) && is_product_invalid##n(a, b))              \
			of_mul_s(state, 0, INFINITY_32, 0);                   \
		return of_##name(state, a, b, c) | box;                       \
	}

#define NARROWS(X)                                                                        \
	X(add_s) X(sub_s) X(mul_s) X(div_s) X(sqrt_s)                                     \
	X(cvt_s_d) X(cvt_s_w) X(cvt_s_wu) X(cvt_s_l) X(cvt_s_lu)
#define CHOICES(X) X(min_s, 32, BOX) X(max_s, 32, BOX) X(min_d, 64, 0) X(max_d, 64, 0)

#define FUSED(X)                                                                          \
	X(madd_s, 32, BOX) X(msub_s, 32, BOX) X(nmadd_s, 32, BOX) X(nmsub_s, 32, BOX)     \
	X(madd_d, 64, 0) X(msub_d, 64, 0) X(nmadd_d, 64, 0) X(nmsub_d, 64, 0)

NARROWS(NARROW)
FUSED(FUSE)
CHOICES(CHOOSE)

#define HELPER(name, ...) ORIGINAL("helper_f" #name "_riscv64", of_##name),

ORIGINALS(NARROWS(HELPER) FUSED(HELPER) CHOICES(HELPER));
