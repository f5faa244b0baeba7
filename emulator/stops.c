// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Stops for a debugger: hooks of single instructions, of all, and of accesses to memory.
 *
 * An engine stops before an instruction, and goes on with it as if it had never stopped: so its
 * hooks are silent when they are called again for the same instruction of the same block. What has
 * touched watched memory is over when the next instruction begins, which is where that stops.
 */
#include "stops.h"

#define API __attribute__((visibility("default")))

static void stop(struct stops *s, void *engine, uint64_t address, uint64_t why)
{
	if (s->resumed && address == s->address && blocks_begun(s->counter) == s->block) {
		s->resumed--;
		return;
	}
	s->resumed = 0;
	s->why = why;
	s->address = address;
	s->block = blocks_begun(s->counter);
	s->emu_stop(engine);
	s->counter->leave = s->leave;
}

static bool is_target(const struct stops *s, uint64_t address)
{
	return address == s->target && blocks_begun(s->counter) == s->target_block;
}

API void stops_at_place(void *engine, uint64_t address, uint32_t size, struct place *place)
{
	(void)size;
	if (is_target(place->stops, address))
		stop(place->stops, engine, address, STOPPED_AT_TARGET);
	else if (place->enabled)
		stop(place->stops, engine, address, STOPPED_AT_PLACE);
}

API void stops_at_each(void *engine, uint64_t address, uint32_t size, struct stops *s)
{
	(void)size;
	if (is_target(s, address)) {
		stop(s, engine, address, STOPPED_AT_TARGET);
		return;
	}
	if (s->watch)
		stop(s, engine, address, STOPPED_BY_ACCESS);
	else if (s->stepping)
		stop(s, engine, address, STOPPED_BY_STEP);
	if (s->why)
		return;
	s->before = address;
	s->before_block = blocks_begun(s->counter);
}

/* at: where the access begins, which the hook covers with all that reach into what is watched. */
API void stops_at_access(void *engine, int type, uint64_t at, int size, int64_t value,
			 struct watch *watch)
{
	(void)engine, (void)type, (void)value;
	if (!watch->number || at > watch->last || at + size <= watch->first)
		return;
	watch->stops->watch = watch->number;
	watch->stops->accessed = at;
}
