// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Count blocks of code for nothing, and stop exactly between two of them.
 *
 * A hook for blocks costs a call in each of them, which walks a list. But libunicorn calls a
 * function of its own there anyway, helper_check_exit_request_ARCH(), by a reference that the
 * dynamic linker resolves. The functions here have the same names, so they take the place of
 * libunicorn's if this library is loaded before it, for all to see. Each counts. When it is time
 * to look, and for engines that do not count, it jumps to the function it stands for. That one
 * returns to the block, or leaves it if the engine is to stop: it finds the block by its return
 * address, which a jump keeps. So an engine that counts stops only when it is time to look.
 *
 * Built without a C library, like the boards of Linux kernels.
 */
#include "blocks.h"

#define NR_ENGINES 64
#define API __attribute__((visibility("default")))

/* Engines and their counters, by a hash of their addresses. A closed engine leaves FREED. */
static struct {
	void *engine;
	struct block_counter *counter;
} engines[NR_ENGINES];
#define FREED ((void *)1)

static inline unsigned int hash(const void *engine)
{
	return (uintptr_t)engine >> 12;
}

/* Return the counter of an engine that is not where its hash points, or NULL. */
static struct block_counter *find(const void *engine)
{
	for (unsigned int i = 0; i < NR_ENGINES; i++) {
		unsigned int at = (hash(engine) + i) % NR_ENGINES;

		if (engines[at].engine == engine)
			return engines[at].counter;
		if (!engines[at].engine)
			break;
	}
	return 0;
}

/* Begin to count; false if there is no room. Context: the caller holds the GIL, as for all. */
API bool blocks_count(void *engine, struct block_counter *counter)
{
	for (unsigned int i = 0; i < NR_ENGINES; i++) {
		unsigned int at = (hash(engine) + i) % NR_ENGINES;

		if (engines[at].engine && engines[at].engine != FREED)
			continue;
		engines[at].counter = counter;
		__atomic_store_n(&engines[at].engine, engine, __ATOMIC_RELEASE);
		return true;
	}
	return false;
}

/* Count no longer: the engine is about to be closed. */
API void blocks_forget(void *engine)
{
	for (unsigned int i = 0; i < NR_ENGINES; i++)
		if (engines[i].engine == engine)
			__atomic_store_n(&engines[i].engine, FREED, __ATOMIC_RELEASE);
}

typedef void check(void *engine, uint32_t delayed);

/*
 * libunicorn 2.1.4 has a flag there: the PC is right already, and need not become that of the block
 * which an engine leaves. An exception whose hook goes on sets it, and it would hold for the first
 * stop after that, wherever the PC is by then.
 */
#ifdef __x86_64__
#define PC_IS_RIGHT 0x3a32
#else
#define PC_IS_RIGHT 0x5632
#endif

/*
 * delayed: the block is the second half of a pair of instructions, between which nothing stops.
 * All calls in tail position are jumps: the function that libunicorn called returns for it.
 */
#define COUNT(arch)                                                                              \
	static check *original_##arch;                                                           \
	static __attribute__((noinline)) void look_##arch(void *engine, uint32_t delayed,        \
							  struct block_counter *counter)         \
	{                                                                                        \
		counter->at_look(counter->argument);                                             \
		((volatile bool *)engine)[PC_IS_RIGHT] = false;                                  \
		original_##arch(engine, delayed);                                                \
	}                                                                                        \
	static __attribute__((noinline)) void search_##arch(void *engine, uint32_t delayed)      \
	{                                                                                        \
		struct block_counter *counter = find(engine);                                    \
                                                                                                 \
		if (!counter)                                                                    \
			original_##arch(engine, delayed);                                        \
		else if (++counter->blocks >= counter->look)                                     \
			look_##arch(engine, delayed, counter);                                   \
	}                                                                                        \
	API void helper_check_exit_request_##arch(void *engine, uint32_t delayed)                \
	{                                                                                        \
		unsigned int at = hash(engine) % NR_ENGINES;                                     \
		struct block_counter *counter = engines[at].counter;                             \
                                                                                                 \
		if (engines[at].engine != engine)                                                \
			search_##arch(engine, delayed);                                          \
		else if (++counter->blocks >= counter->look)                                     \
			look_##arch(engine, delayed, counter);                                   \
	}

COUNT(x86_64)
COUNT(aarch64)
COUNT(riscv64)

typedef void trace(int32_t size, uint32_t kind, void *engine, uint64_t address);

static trace *original_trace;

/*
 * libunicorn calls the hooks of a block or an instruction by this function. Behind one that wants
 * the engine to stop here it leaves the code as the function for blocks does, which finds the
 * instruction by the return address.
 */
API void helper_uc_tracecode(int32_t size, uint32_t kind, void *engine, uint64_t address)
{
	struct block_counter *counter;
	check *leave;

	original_trace(size, kind, engine, address);
	counter = find(engine);
	if (!counter || !counter->leave)
		return;
	leave = counter->leave;
	counter->leave = 0;
	((volatile bool *)engine)[PC_IS_RIGHT] = false;
	leave(engine, 0);
}

/* Set the functions of libunicorn, which has been loaded since. */
API void blocks_originals(trace *hooks, check *x86_64, check *aarch64, check *riscv64)
{
	original_trace = hooks;
	original_x86_64 = x86_64;
	original_aarch64 = aarch64;
	original_riscv64 = riscv64;
}
