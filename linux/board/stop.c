// SPDX-License-Identifier: GPL-2.0-or-later
/* The table of libunicorn's functions, how to make it stop, and the console. */
#include "internal.h"

struct uc_api uc;

void board_stop(struct board *b, u64 why, u64 at)
{
	b->stop = why;
	b->stop_at = at;
	blocks_look(&b->counter, 0);
	uc.emu_stop(engine(b));
}

/* Have the block left before the instruction whose hook is called, and the board stop there. */
void stop_before(struct board *b, u64 why, u64 at)
{
	board_stop(b, why, at);
	b->counter.leave = uc.leave;
}

/* Stop for good, as the handler of an exception cannot be entered. Return false. */
bool give_up(struct board *b, u64 vector)
{
	b->vector = vector;
	board_stop(b, STOP_FAULT, HERE);
	return false;
}

/*
 * Count exceptions between which no block of code begins. If there are too many, as of a handler that
 * itself faults, stop for good and return true.
 */
bool faults_again(struct board *b, u64 vector)
{
	if (b->fault_block != begun(b))
		b->faults = 0;
	b->fault_block = begun(b);
	return b->faults++ > MAX_FAULTS && !give_up(b, vector);
}

/* Keep what the serial port prints. */
void print(struct board *b, u8 c)
{
	b->console[b->console_size++ % CONSOLE_SIZE] = c;
}
