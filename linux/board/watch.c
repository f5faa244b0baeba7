// SPDX-License-Identifier: GPL-2.0-or-later
/* The functions of the kernel before which the board asks the host. */
#include "internal.h"

/* Rebuild the filter of watched addresses. */
void watch(struct board *b)
{
	bool is_new = false;

	for (int i = 0; i < NR_WATCHED; i++)
		b->watched[i] = 0;
	for (int i = 0; i < NR_CALLS; i++) {
		u64 addr = b->calls[i];

		if (addr)
			watch_function(b, addr, WATCH_CALL);
		is_new |= hook_block(b, addr);
	}
	is_new |= hook_losses(b) | hook_hidden(b);
	if (is_new) /* all code has to be translated anew for it */
		uc.ctl(engine(b), UC_CTL_TB_FLUSH);
}

/* Return whether to ask the host at a place. */
static bool asks(struct board *b, int call)
{
	u64 at = b->call_zeros[call];

	if (at == FAILED)
		return (int32_t)result(b) < 0;
	return at == NEVER || !read_word(b, argument(b, 0) + at);
}

/* A watched function, or where one returns to, may begin here. what: WATCH_* */
static void look_at(struct board *b, u64 addr, u8 what)
{
	if (b->asked_at == addr) {
		b->asked_at = 0;
		return;
	}
	if ((what & WATCH_HIDDEN && hide(b, addr)) || look_for_losses(b, addr, what))
		return;
	for (int i = 0; what & WATCH_CALL && i < NR_CALLS; i++) {
		if (b->calls[i] == addr && asks(b, i)) {
			b->asked_at = addr;
			board_stop(b, STOP_CALL, addr);
			return;
		}
	}
}

/* Called at a block that may be watched: by the addresses of functions, whichever entry this is. */
void watch_block(struct board *b, u64 addr, u8 what)
{
	if (!addr || in_program(b)) /* 0 stands for none in the table */
		return;
	look_at(b, function_at(b, addr), what);
	if (b->stop_at == function_at(b, addr))
		b->stop_at = addr;
}
