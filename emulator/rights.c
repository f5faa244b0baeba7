// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What x86-64 denies to programs, and how long instructions are that leave them.
 *
 * libunicorn does not check the right to use ports, and has far calls, far returns and iret of a
 * program access its stack with the rights of the kernel, whose memory they could change. Nor does it
 * tell hooks whether a prefix stands before an instruction, so where the next one begins. The
 * functions here take the place of its own, as blocks.c tells, and jump to them.
 */
#include <stdlib.h>

#include "engines.h"
#include "originals.h"

#define CODE_OF_64_BITS 0x8000 /* in hflags */
#define WIDE 0x400000          /* in flags of SS: the pointer has 32 bits */
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
	uint32_t level = X86(state)->hflags & 3;
	const struct block_counter *c;

	if (level <= (X86(state)->flags >> 12 & 3))
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
	const uint32_t flags = X86(state)->hflags, size = 2 << shift;
	uint64_t mask = ~0ull, base = 0, at = X86(state)->regs[4];

	if (!known || (flags & 3) != 3)
		return;
	if (!(flags & CODE_OF_64_BITS)) {
		mask = X86(state)->segs[2].flags & WIDE ? 0xffffffff : 0xffff;
		base = X86(state)->segs[2].base;
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
	const bool wide = X86(state)->hflags & CODE_OF_64_BITS;

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

#define HELPER(name, place) ORIGINAL("helper_" #name "_x86_64", of.place)
#define PORTS(way) HELPER(way##b, way##b), HELPER(way##w, way##w), HELPER(way##l, way##l)

ORIGINALS(HELPER(raise_interrupt, interrupt), HELPER(syscall, syscall), HELPER(sysenter, sysenter),
	  PORTS(in), PORTS(out), HELPER(lcall_protected, lcall), HELPER(lret_protected, lret),
	  HELPER(iret_protected, iret), ORIGINAL("raise_exception_err_ra_x86_64", of.raise),
	  ORIGINAL("probe_access_x86_64", of.probe));
