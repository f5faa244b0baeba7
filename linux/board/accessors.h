/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * What an architecture keeps, with its types. Before this it says the structures: ARCH_CPU, of a
 * processor; ARCH_DEVICES, if all processors share something; ARCH_STATE, libunicorn's state, if
 * that has a place for the board's address (board).
 */
#include "internal.h"
#include "replacement.h"

_Static_assert(sizeof(ARCH_CPU) <= NR_OWN * 8, "NR_OWN");

static inline ARCH_CPU *own(const struct cpu *c)
{
	return (ARCH_CPU *)(uintptr_t)c->own;
}

#ifdef ARCH_DEVICES
_Static_assert(sizeof(ARCH_DEVICES) <= NR_DEVICES * 8, "NR_DEVICES");

static inline ARCH_DEVICES *devices(const struct board *b)
{
	return (ARCH_DEVICES *)(uintptr_t)b->devices;
}
#endif

#ifdef ARCH_STATE
typedef ARCH_STATE state_t;

static inline state_t *state(const struct board *b)
{
	return (state_t *)(uintptr_t)b->state;
}

static inline struct board *board_of(const state_t *s)
{
	return (struct board *)(uintptr_t)s->board;
}
#endif
