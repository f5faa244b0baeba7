// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What kpfs's own tasks do for kpfs is no event of the kernel. They wake each other, serve files,
 * and make what a program's task needs; a probe on the way would be hit, and lose an instance.
 *
 * So the functions that call handlers and reserve records return at once for these tasks. A task
 * is known by the stack pointer with which it has entered the kernel: each has its stack in its
 * slot. It works for kpfs between two requests, until it makes the first call of the next one, and
 * in requests that are not a program's.
 */
#include "internal.h"

#define NEAR 4096 /* bytes of the agent's stack that it uses */

/* Hook the functions. True: as hook_block(). */
bool hook_hidden(struct board *b)
{
	bool flush = false;

	for (int i = 0; i < NR_HIDDEN && b->hidden[i]; i++) {
		watch_function(b, b->hidden[i], WATCH_HIDDEN);
		flush |= hook_block(b, b->hidden[i]);
	}
	return flush;
}

/* Return the slot of the task that runs, or NR_SLOTS. */
static u64 slot_of(struct board *b)
{
	u64 sp = program_stack(b);
	u64 slot = (sp - region_base - SLOTS_AT) / SLOT_SIZE;

	if (sp && slot < NR_SLOTS)
		return slot;
	return sp && sp - b->agent_stack + NEAR < 2 * NEAR ? AGENT_SLOT : NR_SLOTS;
}

/* Return whether the task that runs works for kpfs. */
static bool is_own(struct board *b)
{
	u64 number = slot_of(b);
	const struct agent_slot *slot;

	if (number == NR_SLOTS)
		return false;
	slot = (const void *)(uintptr_t)(b->region + SLOTS_AT + number * SLOT_SIZE);
	return slot->seq == slot->done || !slot->ops[0].made ||
	       !(b->seen[number / 64] >> number % 64 & 1);
}

/* Called at a block where a function may begin. True: it is to return, see hide_now(). */
bool hide(struct board *b, u64 addr)
{
	for (int i = 0; i < NR_HIDDEN && b->hidden[i]; i++) {
		if (b->hidden[i] == addr && is_own(b)) {
			b->hides = i + 1;
			board_stop(b, STOP_HIDE, addr);
			return true;
		}
	}
	return false;
}

/* Return from the function that hide() has stopped at. */
void hide_now(struct board *b)
{
	return_now(b, b->hidden_values[b->hides - 1]);
}
