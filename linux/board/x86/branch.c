// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Indirect calls and jumps that do not land on endbr64. Processors with indirect branch tracking raise
 * an exception there, and libunicorn's have none.
 *
 * The kernel reaches a module by such calls, too. So all of its text is looked at while this is on. Most
 * of its instructions are looked at once, and are then as fast as without.
 */
#include "looks.h"

#define ENDBR64 0xfa1e0ff3u

static void check_target(struct board *b, u64 at, u64 target)
{
	struct finding *f;

	if (!is_text_address(target) || (u32)read_word(b, target) == ENDBR64)
		return;
	f = text_report(b, FOUND_IBT, at, target);
	if (f)
		f->a = target;
}

bool look_at_branch(struct board *b, struct look *l)
{
	if (l->insn->flags & INSN_INDIRECT && !(l->insn->flags & INSN_NO_TRACK))
		check_target(b, l->at, branch_target(b, l));
	else if (l->callee && l->callee->kind == FN_BRANCH)
		check_target(b, l->at, register_value(b, l->callee->to));
	return false;
}
