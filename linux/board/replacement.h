/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Functions of boards that take the place of libunicorn's: emulator/replaced.c. */
#include "uc.h"

struct replacement {
	const char *name;
	void *function;
	void **original; /* where the address of libunicorn's goes, or NULL */
};

/* A row of the board's table, in the file that has the function. */
#define REPLACE_KEEPING(name, function, original)                                           \
	static const struct replacement row_of_##name                                       \
		__attribute__((used, aligned(8), section("replacements"))) = { #name, (void *)(function), \
								   original }
#define REPLACE(name, function) REPLACE_KEEPING(name, function, NULL)
#define REPLACE_TOO(name, function, original) REPLACE_KEEPING(name, function, (void **)&(original))
#define CALLER (uintptr_t)__builtin_return_address(0)

/*
 * Translates an address for libunicorn, or raises an exception. from: in translated code, or 0.
 * Returns false if there is no translation, and probe says that this is no exception.
 */
typedef bool fill_tlb(void *processor, u64 addr, int size, int access, int mode, bool probe,
		      uintptr_t from);
enum { LOAD, STORE, FETCH };                           /* kinds of accesses */
enum { CAN_READ = 1, CAN_WRITE = 2, CAN_EXECUTE = 4 }; /* rights to a page */

/* Return the functions of libunicorn that a board replaces, and which may be called from then on. */
const struct replacement *board_replacements(u64 *count, const struct uc_api *api);
