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

/* Where the call returns to, in the helpers of libunicorn 2.1.4 for the instructions. */
#define IN_SYSCALL 0xee
#define IN_RDTSC 0x12e
#define IN_RDTSCP 0x13e

/* Where it is in libunicorn 2.1.4's state of a processor how flags are kept. */
#define FLAGS_KEPT 168

typedef bool restore(void *cpu, uintptr_t at, bool exits);

static restore *original;
static uintptr_t known[3];
static bool is_known;

static bool keep_flags(void *cpu, uintptr_t at)
{
	void *state = AT(void *, cpu, STATE);
	uint32_t *flags_kept = &AT(uint32_t, state, FLAGS_KEPT), kept = *flags_kept;
	const struct block_counter *c = blocks_counter(state);
	bool found;

	if (c && c->hooks_need_no_pc)
		return true;
	found = original(cpu, at, false);
	*flags_kept = kept;
	return found;
}

API bool cpu_restore_state_x86_64(void *cpu, uintptr_t at, bool exits)
{
	uintptr_t caller = (uintptr_t)__builtin_return_address(0);

	for (int i = 0; i < 3; i++)
		if (caller == known[i])
			return true;
	return exits || !is_known ? original(cpu, at, exits) : keep_flags(cpu, at);
}

/* Set the functions of libunicorn, which has been loaded since. */
API void restore_originals(restore *function, uintptr_t syscall, uintptr_t rdtsc, uintptr_t rdtscp)
{
	original = function;
	is_known = syscall;
#ifdef __x86_64__
	known[0] = syscall + IN_SYSCALL;
	known[1] = rdtsc + IN_RDTSC;
	known[2] = rdtscp + IN_RDTSCP;
#else
	(void)syscall, (void)rdtsc, (void)rdtscp;
#endif
}
