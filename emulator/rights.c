// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What x86-64 denies to programs, and how long instructions are that leave them.
 *
 * libunicorn does not check the right to use ports, and has far calls, far returns and iret of a
 * program access its stack with the rights of the kernel, whose memory they could change. Nor does it
 * tell hooks whether a prefix stands before an instruction, so where the next one begins. The
 * functions here take the place of its own, as blocks.c tells, and jump to them.
 */
#include "softfloat.h"
#include <stdlib.h>

#define STACK_POINTER 0x20 /* places in the state of a processor */
#define FLAGS 0x88
#define HIDDEN_FLAGS 0xb0
#define STACK_BASE 0xf0
#define STACK_FLAGS 0xfc
#define CODE_OF_64_BITS 0x8000 /* in HIDDEN_FLAGS */
#define WIDE 0x400000          /* in STACK_FLAGS: the pointer has 32 bits */
#define LOAD 0                 /* kinds of access, and whose it is */
#define STORE 1
#define PROGRAM 1
#define DOUBLE_FAULT 8
#define GP 13

typedef uint64_t in(void *state, uint32_t port);
typedef void out(void *state, uint32_t port, uint32_t value);
typedef void leave(void *state, int32_t length);
typedef void interrupt(void *state, int32_t vector, int32_t length);
typedef void raise(void *state, int vector, int error, uintptr_t from);
typedef void *probe(void *state, uint64_t addr, int size, int access, int whose, uintptr_t from);
typedef void far_call(void *state, int selector, uint64_t to, int shift, int length);
typedef void far_return(void *state, int shift, int more);

struct functions {
	raise *raise;
	interrupt *interrupt;
	leave *syscall, *sysenter;
	in *inb, *inw, *inl;
	out *outb, *outw, *outl;
	probe *probe;
	far_call *lcall;
	far_return *lret, *iret;
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

/* Fault where a program may not access count words of its stack: from the top, or below it. */
static void check_stack(void *state, int count, int shift, int access, uintptr_t from)
{
	const uint32_t flags = AT(uint32_t, state, HIDDEN_FLAGS), size = 2 << shift;
	uint64_t mask = ~0ull, base = 0, at = AT(uint64_t, state, STACK_POINTER);

	if (!known || (flags & 3) != 3)
		return;
	if (!(flags & CODE_OF_64_BITS)) {
		mask = AT(uint32_t, state, STACK_FLAGS) & WIDE ? 0xffffffff : 0xffff;
		base = AT(uint64_t, state, STACK_BASE);
	}
	while (count--) {
		if (access == STORE)
			at -= size;
		for (uint32_t byte = 0; byte < size; byte += size - 1) /* it may lie in two pages */
			of.probe(state, base + ((at + byte) & mask), 1, access, PROGRAM, from);
		if (access == LOAD)
			at += size;
	}
}

API void helper_lcall_protected_x86_64(void *state, int selector, uint64_t to, int shift,
				       int length)
{
	check_stack(state, 2, shift, STORE, CALLER);
	of.lcall(state, selector, to, shift, length);
}

API void helper_lret_protected_x86_64(void *state, int shift, int more)
{
	check_stack(state, 2, shift, LOAD, CALLER);
	of.lret(state, shift, more);
}

API void helper_iret_protected_x86_64(void *state, int shift, int length)
{
	const bool wide = AT(uint32_t, state, HIDDEN_FLAGS) & CODE_OF_64_BITS;

	check_stack(state, wide ? 5 : 3, shift, LOAD, CALLER);
	of.iret(state, shift, length);
}

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
