/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* A count of the blocks of code that an engine of libunicorn begins. */
#include <stdbool.h>
#include <stdint.h>

/* Where code calls for the next block: see branches.c. */
struct branch_site {
	uint64_t caller;
	uint64_t age;  /* of the blocks */
	uint64_t from; /* address of the branch; 0: it is not to be told of */
};

#define BRANCH_SITE_BITS 14

struct block_counter {
	int32_t *left;           /* each block takes one; below 0 it is time to look */
	uint64_t end;            /* blocks that have begun when nothing is left */
	uint64_t look;           /* call at_look before block number look, and those after it */
	void (*at_look)(void *); /* may set look anew, and stop the engine before the block */
	void *argument;          /* of at_look */
	void (*leave)(void *engine, uint32_t delayed); /* set by a hook: see stops.c */
	/* the one function for hooks of blocks, called in place of libunicorn's list of them */
	void (*at_block)(void *engine, uint64_t address, uint32_t size, void *argument);
	/*
	 * called for instructions that have hooks, before these; false: this one needs no hook, and is
	 * not called again until it is translated anew
	 */
	bool (*at_code)(void *argument, uint64_t address, uint32_t size);
	uint64_t code_shared; /* at_code is not all: the hooks themselves are called, too */
	int32_t own;          /* left, until blocks.c finds a better place */

	/* called before a debug register of x86-64 is written, if it is set */
	void (*set_dr)(void *argument, int32_t number, uint64_t value);
	bool (*read_msr)(void *argument); /* called by rdmsr; true: it has set the registers */
	uint64_t hooks_need_no_pc;        /* those of accesses: see restore.c */

	/* see branches.c */
	struct branch_site *branches; /* NULL: nothing is told of branches */
	/* returns the address of the branch at a block's end whose targets are to be told of, or 0 */
	uint64_t (*branch_of)(void *argument, uint64_t pc, uint64_t size);
	void (*at_branch)(void *argument, uint64_t from); /* it has set the PC */

	/* see rights.c */
	bool (*may_use_port)(void *argument, uint32_t port, uint32_t size); /* if it is set */
	uint64_t length; /* bytes of the syscall, sysenter or int whose hook is called */

	/* of an engine whose at_look is blocks_end_run(): argument is this counter */
	void *engine;
	void (*emu_stop)(void *engine);
	uint64_t run_end;   /* the run ends before this block */
	uint64_t run_ticks; /* of host_ticks(), after which it ends, too */
	uint64_t run_since; /* when it began; 0: at the next look */
	uint64_t run_step;  /* blocks between two looks at that clock */
	uint64_t early;     /* it ended by that clock, and its last block does not count */
};

#define MAX_RUN_STEP 256

/* Return the time by a clock of the host, which counts about once in a nanosecond. */
static inline uint64_t host_ticks(void)
{
#ifdef __x86_64__
	return __builtin_ia32_rdtsc();
#else
	uint64_t count;

	asm volatile("mrs %0, cntvct_el0" : "=r"(count));
	return count << 5;
#endif
}

/* Return the counter of the engine of an x86-64 processor with that state, or NULL. */
const struct block_counter *blocks_counter(const void *state);

/* Return the number of blocks that have begun. */
static inline uint64_t blocks_begun(const struct block_counter *c)
{
	return c->end - *c->left;
}

static inline void blocks_look(struct block_counter *c, uint64_t look)
{
	uint64_t begun = blocks_begun(c), ahead = look > begun ? look - begun - 1 : 0;

	if (ahead > INT32_MAX)
		ahead = INT32_MAX;
	c->look = look;
	c->end = begun + ahead;
	*c->left = ahead;
}

/* Have blocks_end_run() end the run after so many blocks. */
static inline void blocks_run(struct block_counter *c, uint64_t blocks)
{
	uint64_t begun = blocks_begun(c);

	c->run_end = begun + blocks;
	c->run_since = 0;
	blocks_look(c, begun + (blocks < c->run_step ? blocks : c->run_step));
}

/* The block that has begun last does not count, as it is to begin again. */
static inline void blocks_take_back(struct block_counter *c)
{
	c->end--;
	blocks_look(c, c->look);
}
