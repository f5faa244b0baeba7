// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Stop an engine from a timer of the C library.
 *
 * Such a timer calls on a thread of its own, which may come after the timer was deleted and the engine
 * closed: then libunicorn would write into memory that is somebody else's. So it calls here, with the
 * number of a stopper that is never given twice. The end of a stopper waits for calls that have begun.
 */
#include "engines.h"

#define NR_STOPPERS 256

static struct stopper {
	void *engine; /* NULL: it has ended */
	void (*stop)(void *engine);
	uint64_t number;
	uint32_t busy; /* calls that have begun */
} stoppers[NR_STOPPERS];
static uint64_t last_number;

/* Return the number of a new stopper, or 0 if there are too many. Context: the GIL is held. */
API uint64_t stopper_begin(void *engine, void (*stop)(void *))
{
	for (int i = 0; i < NR_STOPPERS; i++) {
		uint64_t number = ++last_number;
		struct stopper *s = &stoppers[number % NR_STOPPERS];

		if (s->engine)
			continue;
		s->stop = stop;
		__atomic_store_n(&s->number, number, __ATOMIC_SEQ_CST);
		__atomic_store_n(&s->engine, engine, __ATOMIC_SEQ_CST);
		return number;
	}
	return 0;
}

/* Stop the engine, unless its stopper has ended. Context: any thread. */
API void stopper_call(uint64_t number)
{
	struct stopper *s = &stoppers[number % NR_STOPPERS];
	void *engine;

	__atomic_add_fetch(&s->busy, 1, __ATOMIC_SEQ_CST);
	engine = __atomic_load_n(&s->engine, __ATOMIC_SEQ_CST);
	if (engine && __atomic_load_n(&s->number, __ATOMIC_SEQ_CST) == number)
		s->stop(engine);
	__atomic_sub_fetch(&s->busy, 1, __ATOMIC_SEQ_CST);
}

/* No call stops the engine from now on. Context: the GIL is held. */
API void stopper_end(uint64_t number)
{
	struct stopper *s = &stoppers[number % NR_STOPPERS];

	__atomic_store_n(&s->engine, 0, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&s->busy, __ATOMIC_SEQ_CST))
		;
}
