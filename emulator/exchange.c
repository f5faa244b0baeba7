// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Keep the arithmetic flags of x86-64 across cmpxchg8b and cmpxchg16b, which change ZF alone.
 *
 * libunicorn keeps operands and a number in place of flags, and computes flags when they are wanted.
 * A block stores that number before each call of a function that wants flags, and forgets to before
 * those for these two instructions, and for sysenter, whose hook wants them. They compute the flags from the number that was stored last. If
 * that one says that an operand is the flags, TF, IOPL and AC may come from any word.
 *
 * The number behind the instruction before stands in the list of operations that libunicorn is just
 * making, where each instruction begins. So the functions here, which take the place of libunicorn's
 * as blocks.c tells, put an operation that stores it before the call.
 */
#include <stddef.h>

#include "engines.h"
#include "originals.h"

#define NR_FUNCTIONS 5
#define IS_STORED 0    /* for that number: the one that is stored is right */

typedef void *make_variable(void *translator, int type, void *base, intptr_t offset,
			    const char *name);
typedef void call(void *translator, void *function, void *result, int count, void **arguments);
typedef struct operation *add(void *translator, int code);

struct functions {
	make_variable *make_variable;
	call *call;
	add *add;
	void *want_flags[NR_FUNCTIONS]; /* two each of cmpxchg8b and cmpxchg16b, and sysenter */
};

static struct functions of;
static intptr_t variable; /* of the number: where it is in each translator */

API void *tcg_global_mem_new_internal_x86_64(void *translator, int type, void *base,
					     intptr_t offset, const char *name)
{
	void *made = of.make_variable(translator, type, base, offset, name);

	if (offset == offsetof(struct x86_state, cc_op))
		variable = (char *)made - (char *)translator;
	return made;
}

static bool wants_flags(const void *function)
{
	for (int i = 0; i < NR_FUNCTIONS; i++)
		if (function == of.want_flags[i])
			return true;
	return false;
}

static const struct operation *previous(const struct operation *o)
{
	return (const struct operation *)((char *)o->before - offsetof(struct operation, next));
}

/* Have the number be stored: a variable that is moved to itself stays as it is. */
static void store_number(void *translator)
{
	struct operation *store = of.add(translator, MOVE);
	const struct operation *begin = previous(store);

	while (begin->code != BEGIN_OF_INSTRUCTION)
		begin = previous(begin);
	store->arguments[0] = store->arguments[1] = (uintptr_t)translator + variable;
	if (begin->arguments[1] == IS_STORED)
		return;
	store->code = MOVE_CONSTANT;
	store->arguments[1] = begin->arguments[1];
}

API void tcg_gen_callN_x86_64(void *translator, void *function, void *result, int count,
			      void **arguments)
{
	if (known && variable && wants_flags(function))
		store_number(translator);
	of.call(translator, function, result, count, arguments);
}

ORIGINALS(ORIGINAL("tcg_global_mem_new_internal_x86_64", of.make_variable),
	  ORIGINAL("tcg_gen_callN_x86_64", of.call), ORIGINAL("tcg_emit_op_x86_64", of.add),
	  ORIGINAL("helper_cmpxchg8b_x86_64", of.want_flags[0]),
	  ORIGINAL("helper_cmpxchg8b_unlocked_x86_64", of.want_flags[1]),
	  ORIGINAL("helper_cmpxchg16b_x86_64", of.want_flags[2]),
	  ORIGINAL("helper_cmpxchg16b_unlocked_x86_64", of.want_flags[3]),
	  ORIGINAL("helper_sysenter_x86_64", of.want_flags[4]));
