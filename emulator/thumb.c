// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Keep an engine quiet in Thumb code: its blocks look for a reason to stop only where they begin.
 *
 * libunicorn leaves out the look behind each access if a flag of the engine says so (blocks.c). Its
 * translator for arm uses this flag itself for instructions in an IT block, and clears it behind each.
 * A stop there would repeat the access: a `strex` fails then, and a lock is taken for good.
 *
 * So the function that translates the look does nothing for engines that count, while they translate
 * code of 32 bits.
 */
#include "engines.h"
#include "layout_arm64.h"
#include "originals.h"

static void (*original)(void *translator);

API void check_exit_request_aarch64(void *translator)
{
	const struct engine *e = find_engine(AT(void *, translator, TRANSLATOR_ENGINE));

	if (!e || !e->state || AT(uint32_t, e->state, ARM64_STATE_IS_64))
		original(translator);
}

ORIGINALS(ORIGINAL("check_exit_request_aarch64", original));
