/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* A turn of an idle CPU that a request begins. */
#include <stddef.h>

#include "hypercalls.h"

#define IDLE_TURN_REFUSED 0
#define IDLE_TURN_BEGUN 1
#define IDLE_TURN_HOST_OP 2
#define IDLE_TURN_DONE 3
#define IDLE_TURN_STILL 4

/* A word of the guest, and its value when Python last looked. */
struct idle_turn_word {
	const uint32_t *at;
	uint64_t value;
};

struct idle_turn {
	int (*emu_start)(void *engine, uint64_t begin, uint64_t until, uint64_t timeout,
			 size_t count);
	int (*reg_read)(void *engine, int reg, void *value);
	int (*reg_write)(void *engine, int reg, const void *value);
	void *engine;
	struct hypercalls *hypercalls;
	uint64_t *wakeups;   /* struct kpfs_wakeups of the CPU */
	int32_t *credit;     /* polls that its turn may make, */
	int32_t turn_credit; /* and how many that are at first */
	int32_t err;         /* of emu_start() */
	uint64_t *frame;     /* of the interrupt: ip cs flags sp ss */
	uint64_t cs, ss;
	uint64_t sp, top;       /* the stack pointer before and after it */
	uint64_t entry;         /* the interrupt's code */
	uint64_t blocks;        /* after which the run ends where it may */
	uint64_t idle, host_op; /* the hypercalls of a CPU that idles, and of a task's host op */
	const struct idle_turn_word *words; /* up to one at 0 */
};
