/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * What architectures have in common whose registers have fixed places in libunicorn's state. Before
 * this they say which ones: PC, LINK, STACK, RESULT, and the first of the ARGUMENTS.
 */
#include "internal.h"

u64 *pc(struct board *b)
{
	return &state(b)->PC;
}

u64 linear_pc(const struct board *b)
{
	return state(b)->PC;
}

u64 argument(const struct board *b, int number)
{
	return (&state(b)->ARGUMENTS)[number];
}

u64 result(const struct board *b)
{
	return state(b)->RESULT;
}

u64 stack_pointer(const struct board *b)
{
	return state(b)->STACK;
}

struct back returns_to(struct board *b)
{
	return (struct back){ state(b)->LINK, stack_pointer(b) };
}

void return_now(struct board *b, u64 value)
{
	state(b)->PC = state(b)->LINK;
	if (value != NEVER)
		state(b)->RESULT = value;
}
