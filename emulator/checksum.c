// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Let VECTOR CHECKSUM of s390x add each word once.
 *
 * It adds a word to both halves of (sum, sum), so that the upper half gets the carry of the lower
 * one, which nobody reads: libunicorn has that put over the word. Its compiler for hosts of x86-64
 * does so before the upper half was added, which then adds the new lower half. QEMU 7.2 does, too.
 * The function here takes the place of libunicorn's own, as blocks.c tells, and has the lower half
 * put into a variable of its own.
 */
#include "engines.h"
#include "originals.h"

#define TYPE_I32 0

typedef void add2(void *translator, char *low, char *high, char *low_a, char *high_a, char *low_b,
		  char *high_b);
typedef void extract(void *translator, char *to, char *from, unsigned int at, unsigned int bits);
typedef char *make_variable(void *translator, int type, bool is_local);
typedef void free_variable(void *translator, char *variable);

static struct {
	add2 *add2;
	extract *extract;
	make_variable *make_variable;
	free_variable *free_variable;
} of;

/* Variables are named by where they are in the translator. */
API void tcg_gen_add2_i32_s390x(char *translator, char *low, char *high, char *low_a, char *high_a,
				char *low_b, char *high_b)
{
	char *made, *own;

	if (low != high_b) {
		of.add2(translator, low, high, low_a, high_a, low_b, high_b);
		return;
	}
	made = of.make_variable(translator, TYPE_I32, false);
	own = (char *)(made - translator);
	of.add2(translator, own, high, low_a, high_a, low_b, high_b);
	of.extract(translator, low, own, 0, 32);
	of.free_variable(translator, made);
}

ORIGINALS(ORIGINAL("tcg_gen_add2_i32_s390x", of.add2),
	  ORIGINAL("tcg_gen_extract_i32_s390x", of.extract),
	  ORIGINAL("tcg_temp_new_internal_s390x", of.make_variable),
	  ORIGINAL("tcg_temp_free_internal_s390x", of.free_variable));
