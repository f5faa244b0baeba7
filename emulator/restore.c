// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Leave out a search that finds what is known, and keep what it sets wrongly.
 *
 * Before the hooks of syscall, rdtsc and rdtscp libunicorn searches for the block that they are in,
 * by a return address, and sets the processor's PC and flags to what they were there. But what it
 * translates for these instructions has just stored both. So this takes the place of the function
 * that searches, as blocks.c tells, and returns to these callers at once.
 *
 * libunicorn searches before hooks of memory, too, and then goes on in the instruction. It also sets
 * how the arithmetic flags are kept to what that was before a hook of the instruction had them
 * computed. "rep stos" would leave wrong flags behind.
 */
#include "engines.h"
#include "originals.h"

typedef bool restore(void *cpu, uintptr_t at, bool exits);

static restore *original;
static char *syscall, *rdtsc, *rdtscp;

static bool keep_flags(void *cpu, uintptr_t at)
{
	void *state = AT(void *, cpu, STATE);
	const uint32_t kept = X86(state)->cc_op;
	const struct block_counter *c = blocks_counter(state);
	bool found;

	if (c && c->hooks_need_no_pc)
		return true;
	found = original(cpu, at, false);
	X86(state)->cc_op = kept;
	return found;
}

/* Return whether a place is behind the call in the helper of one of these instructions. */
static inline bool is_stored(uintptr_t caller)
{
#ifdef __x86_64__
	return caller == (uintptr_t)syscall + IN_SYSCALL || caller == (uintptr_t)rdtsc + IN_RDTSC ||
	       caller == (uintptr_t)rdtscp + IN_RDTSCP;
#else
	(void)caller;
	return false;
#endif
}

API bool cpu_restore_state_x86_64(void *cpu, uintptr_t at, bool exits)
{
	if (known && is_stored(CALLER))
		return true;
	return exits || !known ? original(cpu, at, exits) : keep_flags(cpu, at);
}

ORIGINALS(ORIGINAL("cpu_restore_state_x86_64", original),
	  ORIGINAL("helper_syscall_x86_64", syscall), ORIGINAL("helper_rdtsc_x86_64", rdtsc),
	  ORIGINAL("helper_rdtscp_x86_64", rdtscp));
