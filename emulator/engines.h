/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* The engines of libunicorn that count blocks, for the functions that take the place of its own. */
#include "blocks.h"
#include "layout.h"

#define API __attribute__((visibility("default")))
#define NR_ENGINES 64
#define FREED ((void *)1) /* the engine of an entry whose engine is closed */

struct engine {
	void *engine;
	struct block_counter *counter;
	void *state; /* of its processor; NULL: not known */

	/* of search.c */
	struct table *table;     /* blocks that were found; NULL: libunicorn searches */
	uint64_t age;            /* with *dropped it grows whenever a row may be wrong */
	const uint64_t *dropped; /* how many blocks libunicorn has dropped one by one */
	char *first;             /* a block */
	uint64_t dropped_all;    /* rows of an earlier age are of blocks that are no more */
	uint64_t dropped_one;    /* those may be */
	uint64_t dropped_before; /* *dropped, then */
	uint32_t kind;           /* what libunicorn last searched for */

	/* of track.c */
	uint32_t page_shift;
	uint16_t *pages; /* by libunicorn's addresses of RAM; NULL: it notices what it can */
	uint64_t nr_pages;
	bool keeps_check; /* the page of the last store does */
	bool fills;       /* an entry is new: a store that is checked only asks for its page */
	bool is_free;     /* which has no blocks */
	uint8_t called;   /* functions that libunicorn has called */

	uint64_t second_half; /* of an instruction: its address, see riscv_compressed.c */
} __attribute__((aligned(64)));

#pragma GCC visibility push(hidden)
extern struct engine engines[NR_ENGINES]; /* by a hash of their addresses */
extern struct engine *last_found[NR_ENGINES];
extern bool known; /* this libunicorn is the one that layout.h tells of */
#pragma GCC visibility pop

/* Where in a block a function was called. */
#define CALLER (uintptr_t)__builtin_return_address(0)

/* Return the place of an engine, or one of those behind it. */
static inline struct engine *engine_place(const void *engine, unsigned int next)
{
	return &engines[(((uintptr_t)engine >> 12) + next) % NR_ENGINES];
}

/* Return the entry of an engine, or NULL. */
static inline struct engine *find_engine(const void *engine)
{
	for (unsigned int i = 0; i < NR_ENGINES; i++) {
		struct engine *e = engine_place(engine, i);

		if (e->engine == engine)
			return e;
		if (!e->engine)
			break;
	}
	return 0;
}

struct engine *search_state(const void *state, struct engine **last);

/* Return the entry of the engine whose processor has that state, or NULL. */
static inline struct engine *find_state(const void *state)
{
	struct engine **last = &last_found[((uintptr_t)state >> 12) % NR_ENGINES];
	struct engine *e = __atomic_load_n(last, __ATOMIC_RELAXED);

	return e->state == state ? e : search_state(state, last);
}
