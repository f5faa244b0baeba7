/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Functions of boards that take the place of libunicorn's: emulator/replaced.c. */
#include "uc.h"

struct replacement {
	const char *name;
	void *function;
	void **original; /* where the address of libunicorn's goes, or NULL */
};

#define TAKE(name, function) { #name, (void *)(function), NULL }
#define CALLER (uintptr_t)__builtin_return_address(0)

/* Return the functions of libunicorn that a board replaces, and which may be called from then on. */
#define REPLACEMENTS(table)                                                \
	__attribute__((visibility("default"))) const struct replacement *  \
	board_replacements(u64 *count, const struct uc_api *api)           \
	{                                                                  \
		uc = *api;                                                 \
		*count = sizeof(table) / sizeof(*(table));                 \
		return table;                                              \
	}
