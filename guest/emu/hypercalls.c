// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Serve the hypercalls that every request of the guest makes: those that end a run, and a look at
 * the clock. Each call of Python's code takes ten times as long.
 */
#include "hypercalls.h"

#define API __attribute__((visibility("default")))
#define CLOCK_MONOTONIC 1

void hypercalls_look_at_clock(const struct hypercalls *h, uint32_t why)
{
	struct host_time time = { 0 };
	uint64_t now;

	if (!h->step) {
		h->clock_gettime(CLOCK_MONOTONIC, &time);
		now = time.sec * 1000000000ul + time.nsec - h->origin;
		if (now > *h->clock)
			*h->clock = now;
	} else if (why == h->moves) {
		now = *h->clock + h->step;
		*h->clock = now < h->limit ? now : h->limit;
	}
}

/* Serve an OUT of the guest: a hook of libunicorn. */
API void hypercalls_out(void *engine, uint32_t port, int size, uint32_t value, struct hypercalls *h)
{
	switch (port < NR_PORTS ? h->ways[port] : HYPERCALL_SERVE) {
	case HYPERCALL_END:
		h->ended = port;
		h->value = value;
		blocks_look(h->counter, 0);
		h->emu_stop(engine);
		break;
	case HYPERCALL_CLOCK: hypercalls_look_at_clock(h, value); break;
	default:              h->serve(engine, port, size, value);
	}
}
