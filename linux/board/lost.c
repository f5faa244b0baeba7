// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the kernel loses: hits of probes without a record, and records that nobody gets.
 *
 * Kernels count few of these, and forget the counts with the probe. So the board looks at the
 * functions where it happens. Some lose something whenever they are called, or when a guard is
 * taken; others tell by what they return or by a number of the kernel's own. Then the place that
 * they return to is hooked as well, and the stack pointer there tells which call has ended.
 *
 * A return probe misses a function for lack of an instance. The board notes when that function
 * returns: the largest number of those that run at once is how many instances are missing.
 *
 * The host is asked once for each object that loses something, while it still has a name.
 */
#include "internal.h"

#define SPARE 32      /* hooks that are left for others */

/* Hook the functions. True: as hook_block(). */
bool hook_losses(struct board *b)
{
	bool flush = false;

	for (int i = 0; i < NR_LOSSES; i++) {
		if (!b->losses[i].kind)
			continue;
		watch_function(b, b->losses[i].addr, WATCH_LOSS);
		flush |= hook_block(b, b->losses[i].addr);
	}
	for (u64 i = 0; i < b->nr_returns; i++)
		*watched(b, b->returns[i]) |= WATCH_RETURN;
	return flush;
}

/* Hook the block at new_return, if there is one. True: as hook_block(). */
bool hook_return(struct board *b)
{
	u64 addr = b->new_return;

	b->new_return = 0;
	return addr && hook_block(b, addr);
}

/* Return whether the board sees, perhaps once new_return is hooked, that a function returns. */
static bool sees_return(struct board *b, u64 addr)
{
	for (u64 i = 0; i < b->nr_returns; i++)
		if (b->returns[i] == addr)
			return true;
	if (!addr || b->new_return || b->nr_returns == NR_RETURNS ||
	    b->nr_hooked > NR_HOOKED - SPARE)
		return false;
	b->returns[b->nr_returns++] = addr;
	b->new_return = addr;
	*watched(b, addr) |= WATCH_RETURN;
	return true;
}

/* Look again when a function returns. The oldest of too many is forgotten: its task is gone. */
static void await(struct board *b, struct back back, struct pending what)
{
	struct pending *place = &b->pending[b->next_pending % NR_PENDING];

	if (!sees_return(b, back.at))
		return;
	what.at = back.at;
	what.sp = back.sp;
	b->next_pending++;
	b->nr_pending += !place->at;
	*place = what;
}

/* Return the row of what an object has lost at a function, NULL if there is no room for it. */
static struct lost *row_of(struct board *b, u64 loss, u64 object)
{
	u64 place = b->losses[loss].key;
	u64 key = place == NEVER ? 0 : read_word(b, object + place);
	struct lost *row = b->lost, *end = row + b->nr_lost;

	for (; row < end; row++)
		if (row->loss == loss && row->object == object && row->key == key)
			return row;
	if (b->nr_lost == NR_LOST) {
		b->lost_more++;
		return NULL;
	}
	b->nr_lost++;
	*row = (struct lost){ .loss = loss, .object = object, .key = key };
	return row;
}

static struct lost *lose(struct board *b, u64 loss, u64 object)
{
	struct lost *row = row_of(b, loss, object);

	if (row)
		row->count++;
	return row;
}

static u64 stack(const struct board *b)
{
	return stack_pointer(b) >> STACK_BITS;
}

/* A function begins that does nothing while its guard is taken. */
static void meet_guard(struct board *b, u64 loss, u64 object, u64 guard)
{
	struct holder *holder = &b->holders[(guard >> 3) % NR_HOLDERS];
	struct lost *row;

	if (!read_int(b, guard)) {
		*holder = (struct holder){ guard, stack(b) };
		return;
	}
	row = lose(b, loss, object);
	if (row && holder->guard == guard && holder->stack != stack(b))
		row->others++;
}

/* Return whether one of the functions has called the one that begins here. */
static bool is_inner(struct board *b)
{
	u64 at = returns_to(b).at;

	for (int i = 0; i < NR_LOSSES; i++)
		if (b->losses[i].kind && at - b->losses[i].addr < b->losses[i].size)
			return true;
	return false;
}

static void begins(struct board *b, u64 number)
{
	const struct loss *l = &b->losses[number];
	u64 object = l->argument == NEVER ? 0 : argument(b, l->argument) + l->shift;
	struct pending what = { .loss = number, .object = object };

	if (l->needs != NEVER && !read_word(b, object + l->needs))
		return;
	switch (l->kind) {
	case LOSS_ALWAYS:
		if (!is_inner(b))
			lose(b, number, object);
		return;
	case LOSS_GUARD: meet_guard(b, number, object, l->place + b->per_cpu[b->current]); return;
	case LOSS_GUARD_OF:
		meet_guard(b, number, object,
			   read_word(b, object + l->place) + b->per_cpu[b->current]);
		return;
	case LOSS_RETURN: what.regs = argument(b, l->regs); /* fall through */
	case LOSS_GROWN:  what.before = read_word(b, object + l->place);
	}
	await(b, returns_to(b), what);
}

static bool has_lost(struct board *b, const struct pending *what)
{
	const struct loss *l = &b->losses[what->loss];

	switch (l->kind) {
	case LOSS_ZERO:   return !result(b);
	case LOSS_FAILED: return (int32_t)result(b) < 0;
	}
	return read_word(b, what->object + l->place) != what->before;
}

/* A return is missed: note when the probed function returns. */
static void go_out(struct board *b, struct lost *row, u64 regs)
{
	struct back back = probed_returns(b, regs);

	if (++row->out > row->most)
		row->most = row->out;
	await(b, back, (struct pending){ .out = row - b->lost + 1 });
}

static void returned(struct board *b, const struct pending *what)
{
	struct lost *row;

	if (what->out) {
		b->lost[what->out - 1].out--;
	} else if (has_lost(b, what)) {
		row = lose(b, what->loss, what->object);
		if (row && b->losses[what->loss].kind == LOSS_RETURN)
			go_out(b, row, what->regs);
	}
}

static void look_at_returns(struct board *b, u64 addr)
{
	u64 left = b->nr_pending, at = b->next_pending;

	while (left) {
		struct pending what = b->pending[--at % NR_PENDING];

		left -= !!what.at;
		if (what.at != addr || what.sp != stack_pointer(b))
			continue;
		b->pending[at % NR_PENDING].at = 0;
		b->nr_pending--;
		returned(b, &what);
	}
}

/* Called at a block that may be one of these. True: the board stops there. what: WATCH_* */
bool look_for_losses(struct board *b, u64 addr, u8 what)
{
	for (u64 i = 0; what & WATCH_RETURN && i < b->nr_returns; i++)
		if (b->returns[i] == addr)
			look_at_returns(b, addr);
	for (int i = 0; what & WATCH_LOSS && i < NR_LOSSES && b->losses[i].addr; i++)
		if (b->losses[i].kind && b->losses[i].addr == addr)
			begins(b, i);
	if (b->nr_lost == b->lost_told && !b->new_return)
		return false;
	b->asked_at = addr;
	board_stop(b, b->nr_lost == b->lost_told ? STOP_HOOK : STOP_CALL, addr);
	return true;
}
