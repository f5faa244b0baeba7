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
/*
 * Declare a function of libunicorn that its interface lacks, but its library exports: a row without a
 * function of ours. libunicorn's address is there before init_arch() is called.
 */
#define IMPORT(type, name, library_name, arguments) \
	static type(*name) arguments;                     \
	REPLACE_KEEPING(library_name, NULL, (void **)&(name))
#define CALLER (uintptr_t)__builtin_return_address(0)

/*
 * Translates an address for libunicorn, or raises an exception. from: in translated code, or 0.
 * Returns false if there is no translation, and probe says that this is no exception.
 */
typedef bool fill_tlb(void *processor, u64 addr, int size, int access, int mode, bool probe,
		      uintptr_t from);
enum { LOAD, STORE, FETCH };                           /* kinds of accesses */
enum { CAN_READ = 1, CAN_WRITE = 2, CAN_EXECUTE = 4 }; /* rights to a page */

/* Give libunicorn a translation. A page that is only data is no code: stores to it are soon fast. */
static inline bool fill_page(void *processor, u64 addr, u64 at, int rights, int access, int mode)
{
	if (access != FETCH)
		rights &= ~CAN_EXECUTE;
	uc.map_page(processor, addr & -4096ull, at & -4096ull, rights, mode, 4096);
	return true;
}

u64 ignored(void);

/* Return the functions of libunicorn that a board replaces, and which may be called from then on. */
const struct replacement *board_replacements(u64 *count, const struct uc_api *api);
