// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Indirect calls and jumps that do not land on endbr64. Processors with indirect branch tracking raise
 * an exception there, and libunicorn's have none.
 *
 * The kernel reaches a module by such calls, too, so all code is looked at: by emulator/branches.c.
 */
#include "../search/looks.h"
#include "x86.h"

#define ENDBR64 0xfa1e0ff3u

static u32 first_word(struct board *b, u64 addr)
{
	const struct texts *t = texts(b);
	u64 at = addr - t->kernel;

	at = at < t->kernel_size ? t->kernel_at + at : board_walk(b, addr);
	return at < b->ram_size ? *(u32 *)(uintptr_t)(b->ram + at) : 0;
}

static void at_branch(void *board, u64 from)
{
	struct board *b = board;
	u64 target = state(b)->ip;
	struct finding *f;

	if (!(texts(b)->on & LOOK_IBT) || !is_text_address(b, target) ||
	    first_word(b, target) == ENDBR64)
		return;
	f = text_report(b, FOUND_IBT, from, target);
	if (f)
		f->a = target;
}

/* Return the address of a block's last instruction, if it is an indirect branch that is tracked. */
static u64 branch_of(void *board, u64 pc, u64 size)
{
	struct insn i = { 0 };
	u64 last = 0;

	for (u64 addr = pc; addr < pc + size && is_text_address(board, addr); addr += i.size) {
		decode_at(board, addr, 16, &i);
		if (!i.size)
			return 0;
		last = addr;
	}
	return i.flags & INSN_INDIRECT && !(i.flags & INSN_NO_TRACK) ? last : 0;
}

/* Look at branches. [first, first + size): the kernel's text. */
__attribute__((visibility("default"))) void board_look_at_branches(struct board *b, u64 first,
								   u64 size)
{
	struct texts *t = texts(b);

	t->kernel = first;
	t->kernel_size = size;
	t->kernel_at = board_walk(b, first);
	b->counter.branch_of = branch_of;
	b->counter.at_branch = at_branch;
	b->counter.branches = t->branches;
}
