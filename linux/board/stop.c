// SPDX-License-Identifier: GPL-2.0-or-later
/* The table of libunicorn's functions, and how to make it stop. */
#include "internal.h"

struct uc_api uc;

void board_stop(struct board *b, u64 why, u64 at)
{
	b->stop = why;
	b->stop_at = at;
	uc.emu_stop(engine(b));
}
