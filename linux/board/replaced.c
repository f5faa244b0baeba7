// SPDX-License-Identifier: GPL-2.0-or-later
/* The table of functions that take the place of libunicorn's, or are its own. */
#include "replacement.h"

#include "internal.h"

/* What some functions of libunicorn are replaced by where there is nothing to do, or which succeed. */
u64 ignored(void)
{
	return 0;
}

#define MADE_BY_LINKER __attribute__((weak, visibility("hidden")))

extern const struct replacement __start_replacements[] MADE_BY_LINKER;
extern const struct replacement __stop_replacements[] MADE_BY_LINKER;

__attribute__((visibility("default"))) const struct replacement *
board_replacements(u64 *count, const struct uc_api *api)
{
	uc = *api;
	*count = __stop_replacements - __start_replacements;
	return __start_replacements;
}
