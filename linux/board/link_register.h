/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * What architectures have in common whose calls leave the return address in a register. Before this
 * they say where a struct pt_regs has that one, the stack pointer, and the status, and how the
 * status tells that the kernel itself was interrupted; FLAGS_IN_STATE if they have swap_flags().
 */
#include "internal.h"

const bool is_big_endian = false;
#ifndef NOT_AHEAD
#define NOT_AHEAD 0
#endif
const u32 not_ahead = NOT_AHEAD;

bool in_program(const struct board *b)
{
	(void)b;
	return false;
}

struct back probed_returns(struct board *b, u64 regs)
{
	return (struct back){ read_word(b, regs + PT_REGS_LINK), read_word(b, regs + PT_REGS_SP) };
}

u64 program_stack(struct board *b)
{
	u64 top = (stack_pointer(b) | (STACK_SIZE - 1)) + 1, regs = top - b->regs_size;

	if (!b->regs_size || FROM_KERNEL(read_word(b, regs + PT_REGS_STATUS)))
		return 0;
	return read_word(b, regs + PT_REGS_SP);
}

/* WFI ends at an interrupt even if that is masked. */
bool is_woken(const struct board *b)
{
	(void)b;
	return true;
}

#ifndef FLAGS_IN_STATE
/* libunicorn gives them to its translator itself. */
u32 swap_flags(struct board *b, u32 flags)
{
	(void)b;
	return flags;
}
#endif

/* All addresses are in one space. */
u64 board_walk_in(const struct board *b, u64 addr, int space)
{
	(void)space;
	return board_walk(b, addr);
}
