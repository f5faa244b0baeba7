// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Compare two strings, of bytes or words, as SSE4.2 does. libunicorn's take half a register for a whole one,
 * leave their memory where a length is the least number, and do not see the begin of one string at
 * the end of the other. The functions here take their
 * place, as blocks.c tells.
 */
#include "originals.h"
#include "softfloat.h"

/* In the immediate byte, and how lengths are given. */
#define OF_WORDS 1
#define IS_SIGNED 2
#define WAYS 12
#define ANY 0
#define RANGES 4
#define EACH_BY_ITSELF 8
#define NEGATIVE 16
#define ONLY_VALID 32
#define LAST 64
#define EXPANDED 64
#define WIDE 0x100
enum lengths { IMPLICIT, EXPLICIT };

#define CF 1
#define ZF 0x40
#define SF 0x80
#define OF 0x800

static int32_t element(const void *string, int at, uint64_t mode)
{
	if (mode & OF_WORDS)
		return mode & IS_SIGNED ? ((int16_t *)string)[at] : ((uint16_t *)string)[at];
	return mode & IS_SIGNED ? ((int8_t *)string)[at] : ((uint8_t *)string)[at];
}

/* Return how many elements of a string count. word: the register of its length, or NULL. */
static int length(const void *string, const uint64_t *word, uint64_t mode)
{
	const int most = mode & OF_WORDS ? 8 : 16;
	int64_t given;
	int count = 0;

	if (!word) {
		while (count < most && element(string, count, mode))
			count++;
		return count;
	}
	given = mode & WIDE ? (int64_t)*word : (int32_t)*word;
	if (given < -most || given > most)
		return most;
	return given < 0 ? -given : given;
}

/* Return whether the element of b at a place is one that is looked for. */
static bool matches(const void *a, int length_a, const void *b, int length_b, int at, uint64_t mode)
{
	switch (mode & WAYS) {
	case ANY:
		for (int i = 0; at < length_b && i < length_a; i++)
			if (element(a, i, mode) == element(b, at, mode))
				return true;
		return false;
	case RANGES:
		for (int i = 0; at < length_b && i + 1 < length_a; i += 2)
			if (element(a, i, mode) <= element(b, at, mode) &&
			    element(b, at, mode) <= element(a, i + 1, mode))
				return true;
		return false;
	case EACH_BY_ITSELF:
		if (at >= length_a || at >= length_b)
			return at >= length_a && at >= length_b;
		return element(a, at, mode) == element(b, at, mode);
	}
	/* b has a there, or the begin of a at its own end */
	for (int i = 0; i < length_a && at + i < (mode & OF_WORDS ? 8 : 16); i++)
		if (at + i >= length_b || element(a, i, mode) != element(b, at + i, mode))
			return false;
	return true;
}

/* Set the flags; return a bit for each element. */
static uint32_t compare_strings(void *state, const void *a, const void *b, uint64_t mode,
				enum lengths lengths)
{
	const uint64_t *rax = &X86(state)->regs[0], *rdx = &X86(state)->regs[2];
	int length_a = length(a, lengths == EXPLICIT ? rax : 0, mode);
	int length_b = length(b, lengths == EXPLICIT ? rdx : 0, mode);
	const int most = mode & OF_WORDS ? 8 : 16;
	uint32_t found = 0;

	for (int i = 0; i < most; i++) {
		bool one = matches(a, length_a, b, length_b, i, mode);

		if (mode & NEGATIVE && (!(mode & ONLY_VALID) || i < length_b))
			one = !one;
		found |= one << i;
	}
	X86(state)->cc_src = (found ? CF : 0) | (length_b < most ? ZF : 0) |
			     (length_a < most ? SF : 0) | (found & 1 ? OF : 0);
	return found;
}

static void find_element(void *state, uint32_t found, uint64_t mode)
{
	if (!found)
		X86(state)->regs[1] = mode & OF_WORDS ? 8 : 16;
	else
		X86(state)->regs[1] = mode & LAST ? 31 - __builtin_clz(found) :
						    __builtin_ctz(found);
}

static void make_mask(void *state, uint32_t found, uint64_t mode)
{
	uint64_t *words = X86(state)->xmm0;
	const int bits = mode & OF_WORDS ? 16 : 8;

	words[0] = mode & EXPANDED ? 0 : found;
	words[1] = 0;
	for (int i = 0; mode & EXPANDED && i < 128 / bits; i++)
		if (found & 1 << i)
			words[i * bits / 64] |= ((1ull << bits) - 1) << i * bits % 64;
}

#define STRING(name, lengths, result)                                                         \
	static instruction *of_##name; \
	API uint64_t helper_##name##_x86_64(void *state, void *to, void *from, uint64_t immediate) \
	{                                                                                     \
		if (!known)                                                                   \
			return of_##name(state, to, from, immediate);                         \
		result(state, compare_strings(state, to, from, immediate, lengths), immediate); \
		return 0;                                                                     \
	}

#define STRINGS(X)                                                                            \
	X(pcmpestri_xmm, EXPLICIT, find_element) X(pcmpestrm_xmm, EXPLICIT, make_mask)        \
	X(pcmpistri_xmm, IMPLICIT, find_element) X(pcmpistrm_xmm, IMPLICIT, make_mask)

STRINGS(STRING)

#define HELPER(name, ...) ORIGINAL("helper_" #name "_x86_64", of_##name),

ORIGINALS(STRINGS(HELPER));
