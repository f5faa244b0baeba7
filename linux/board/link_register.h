/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * What architectures have in common whose calls leave the return address in a register. Before this
 * they say where a struct pt_regs has that one, the stack pointer, and the status, and how the
 * status tells that the kernel itself was interrupted; FLAGS_IN_STATE if they have swap_flags(), and
 * SPACES if programs and kernel have addresses of their own. They say what else is not as in most.
 */
#include "internal.h"

#ifndef PAUSE_SIZE
#define PAUSE_SIZE 4
#endif
#ifndef NR_MODES
#define NR_MODES 4
#endif
#ifndef PAGE_SIZE
#define PAGE_SIZE 4096
#endif
#ifndef BIG_ENDIAN
#define BIG_ENDIAN false
#endif
#ifndef REGION
#define REGION REGION_BASE
#endif
#ifndef NOT_AHEAD
#define NOT_AHEAD 0
#endif
#ifndef NOWHERE
#define NOWHERE 1
#endif
#ifndef LOCAL_ENTRY
#define LOCAL_ENTRY 0
#endif
const u32 pause_size = PAUSE_SIZE;
const u32 nr_modes = NR_MODES;
const u32 page_size = PAGE_SIZE;
const bool is_big_endian = BIG_ENDIAN;
const u64 region_base = REGION;
const u32 not_ahead = NOT_AHEAD;
const u64 nowhere = NOWHERE;
const u32 local_entry = LOCAL_ENTRY;

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

#ifndef FLAGS_IN_STATE
/* libunicorn gives them to its translator itself. */
u32 swap_flags(struct board *b, u32 flags)
{
	(void)b;
	return flags;
}
#endif

#ifndef SPACES
bool in_program(const struct board *b)
{
	(void)b;
	return false;
}

/* WFI ends at an interrupt even if that is masked. */
bool is_woken(const struct board *b)
{
	(void)b;
	return true;
}

/* All addresses are in one space. */
u64 board_walk_in(const struct board *b, u64 addr, int space)
{
	(void)space;
	return board_walk(b, addr);
}
#endif
