// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What x86-64 denies to programs, and how long instructions are that leave them.
 *
 * libunicorn does not check the right to use ports. It tells hooks neither whether a prefix stands
 * before an instruction, so where the next one begins. The functions here take the place of its own,
 * as blocks.c tells, and jump to them.
 */
#include "engines.h"
#include <stdlib.h>

#define FLAGS 0x88 /* places in the state of a processor */
#define HIDDEN_FLAGS 0xb0
#define DOUBLE_FAULT 8
#define GP 13

typedef uint64_t in(void *state, uint32_t port);
typedef void out(void *state, uint32_t port, uint32_t value);
typedef void leave(void *state, int32_t length);
typedef void interrupt(void *state, int32_t vector, int32_t length);
typedef void raise(void *state, int vector, int error, uintptr_t from);

struct functions {
	raise *raise;
	interrupt *interrupt;
	leave *syscall, *sysenter;
	in *inb, *inw, *inl;
	out *outb, *outw, *outl;
};

static struct functions of;

static inline void check(void *state, uint32_t port, uint32_t size, void *from)
{
	uint32_t level = AT(uint32_t, state, HIDDEN_FLAGS) & 3;
	const struct block_counter *c;

	if (level <= (AT(uint32_t, state, FLAGS) >> 12 & 3))
		return;
	c = blocks_counter(state);
	if (c && c->may_use_port && !c->may_use_port(c->argument, port, size))
		of.raise(state, GP, 0, (uintptr_t)from);
}

#define PORT(letter, size)                                                                   \
	API uint64_t helper_in##letter##_x86_64(void *state, uint32_t port)                  \
	{                                                                                    \
		check(state, port, size, __builtin_return_address(0));                       \
		return of.in##letter(state, port);                                           \
	}                                                                                    \
	API void helper_out##letter##_x86_64(void *state, uint32_t port, uint32_t value)     \
	{                                                                                    \
		check(state, port, size, __builtin_return_address(0));                       \
		of.out##letter(state, port, value);                                          \
	}

PORT(b, 1)
PORT(w, 2)
PORT(l, 4)

static inline void note(void *state, int32_t length)
{
	struct engine *e = find_state(state);

	if (e)
		e->counter->length = length;
}

API void helper_syscall_x86_64(void *state, int32_t length)
{
	note(state, length);
	of.syscall(state, length);
}

API void helper_sysenter_x86_64(void *state, int32_t length)
{
	note(state, length);
	of.sysenter(state, length);
}

API void helper_raise_interrupt_x86_64(void *state, int32_t vector, int32_t length)
{
	note(state, length);
	of.interrupt(state, vector, length);
}

/*
 * libunicorn ends the process where a far call or an interrupt changes to another stack and there is
 * no valid task state segment. A processor has an exception then. With every kernel of the process
 * at stake, its kernel gets the one that it can hardly survive.
 */
API void cpu_abort_x86_64(void *processor)
{
	void *state = AT(void *, processor, STATE);

	if (find_state(state))
		of.raise(state, DOUBLE_FAULT, 0, 0);
	abort();
}

/* Set the functions of libunicorn, which has been loaded since. */
API void rights_originals(const struct functions *functions)
{
	of = *functions;
}
