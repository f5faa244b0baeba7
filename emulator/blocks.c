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
 * On x86-64 the call itself goes, too. Its first one, of each block, writes over the instructions
 * before it, which load its arguments, so that they count, and leave out the call while something
 * is left. What is left stands before the state of the processor, which the block has in a register:
 *
 *	before                         then
 *	mov  $engine, %rdi             decl -4(%rbp)
 *	xor  %esi, %esi                jns  1f
 *	                               mov  %ebp, %esi
 *	call helper_check_exit_...     call helper_check_exit_...
 *	                             1:
 *
 * Built without a C library, like the boards of Linux kernels.
 */
#include "engines.h"
#include "originals.h"

bool known;
struct engine engines[NR_ENGINES], *last_found[] = { [0 ... NR_ENGINES - 1] = engines };

struct engine *search_state(const void *state, struct engine **last)
{
	for (struct engine *e = engines; e < engines + NR_ENGINES; e++) {
		if (e->state == state) {
			__atomic_store_n(last, e, __ATOMIC_RELAXED);
			return e;
		}
	}
	return 0;
}

/*
 * Begin to count; false if there is no room. state: of the processor, or NULL where its place is not
 * known. Context: the caller holds the GIL, as for all.
 */
API bool blocks_count(void *engine, struct block_counter *counter, void *state)
{
	for (unsigned int i = 0; i < NR_ENGINES; i++) {
		struct engine *e = engine_place(engine, i);

		if (e->engine && e->engine != FREED)
			continue;
		e->counter = counter;
		e->state = state;
		e->table = 0;
		e->pages = 0;
		__atomic_store_n(&e->engine, engine, __ATOMIC_RELEASE);
		return true;
	}
	return false;
}

/* Count no longer. */
API void blocks_forget(void *engine)
{
	struct engine *e = find_engine(engine);

	if (!e)
		return;
	e->state = 0;
	__atomic_store_n(&e->engine, FREED, __ATOMIC_RELEASE);
}

typedef void check(void *engine, uint32_t delayed);

/*
 * libunicorn has a flag: the PC is right already, and need not become that of the block which an engine
 * leaves. An exception whose hook goes on sets it, and it would hold for the first stop after that,
 * wherever the PC is by then.
 */
static inline void pc_is_not_right(void *engine)
{
	AT(volatile bool, engine, ENGINE_PC_IS_RIGHT) = false;
}

/* It is time to look. All calls in tail position are jumps, as the comment above has it. */
static inline __attribute__((always_inline)) void look(const struct engine *e, check *original)
{
	struct block_counter *counter = e->counter;
	void *engine = e->engine;
	bool due = blocks_begun(counter) >= counter->look;

	if (due)
		counter->at_look(counter->argument);
	if (*counter->left < 0)
		blocks_look(counter, counter->look);
	if (!due) /* more blocks were left than there is room for */
		return;
	pc_is_not_right(engine);
	original(engine, 0);
}

#ifdef __x86_64__
/*
 * What is left has its place before the state of the processor: libunicorn leaves these bytes free.
 * An engine is counted there from its first block on.
 */
static inline bool adopt(struct engine *e, void *state)
{
	int32_t *left = (int32_t *)state - 1;

	if (e->counter->left != left) {
		if ((e->state && e->state != state) || *left || !(uint32_t)(uintptr_t)state)
			return false;
		*left = *e->counter->left;
		e->counter->left = left;
	}
	e->state = state;
	return true;
}

/* Have a block count by itself from now on. end: of its call. */
static inline void patch(const struct engine *e, uint8_t *end)
{
	static const uint8_t count[] = { 0xff, 0x4d, 0xfc, 0x79 }, mark[] = { 0x89, 0xee };
	static const uint8_t nop[] = { 0x0f, 0x1f, 0x44, 0x00, 0x00 };
	uint64_t word = (uintptr_t)e->engine;
	uint8_t *at;

	if (end[-6] == 0xff && end[-5] == 0x15) /* call *offset(%rip) */
		at = end - 6;
	else if (end[-5] == 0xe8) /* call */
		at = end - 5;
	else
		return;
	if (at[-2] != 0x33 || at[-1] != 0xf6) /* xor %esi, %esi */
		return;
	if (at[-12] == 0x48 && at[-11] == 0xbf && !__builtin_memcmp(at - 10, &word, 8)) {
		__builtin_memcpy(at - 5, nop, sizeof(nop));
		at -= 12;
	} else if (at[-7] == 0xbf && word >> 32 == 0 && !__builtin_memcmp(at - 6, &word, 4)) {
		at -= 7;
	} else {
		return;
	}
	__builtin_memcpy(at, count, sizeof(count));
	at[4] = end - at - 5;
	__builtin_memcpy(at + 5, mark, sizeof(mark));
}

/* A patched block has the low half of its state's address where others have 0. */
#define ENTRY(arch)                                                                              \
	__attribute__((used, noinline)) static void expired_##arch(const void *state)            \
	{                                                                                        \
		const struct engine *e = find_state(state);                                      \
                                                                                                 \
		if (e) /* else it is to be dropped */                                            \
			look(e, original_##arch);                                                \
	}                                                                                        \
	__attribute__((used, noinline)) static void first_##arch(void *engine, uint32_t delayed, \
								 void *state)                    \
	{                                                                                        \
		struct engine *e = find_engine(engine);                                                 \
                                                                                                 \
		if (!e) {                                                                        \
			original_##arch(engine, delayed);                                        \
			return;                                                                  \
		}                                                                                \
		if (adopt(e, state))                                                             \
			patch(e, __builtin_return_address(0));                                   \
		if (--*e->counter->left < 0)                                                     \
			look(e, original_##arch);                                                \
	}                                                                                        \
	asm(".globl helper_check_exit_request_" #arch "\n"                                       \
	    ".type helper_check_exit_request_" #arch ", @function\n"                             \
	    "helper_check_exit_request_" #arch ":\n\t"                                           \
	    "cmp %ebp, %esi\n\t"                                                                 \
	    "mov %rbp, %rdx\n\t"                                                                 \
	    "jne first_" #arch "\n\t"                                                            \
	    "mov %rbp, %rdi\n\t"                                                                 \
	    "jmp expired_" #arch);
#else
#define ENTRY(arch)                                                                              \
	API void helper_check_exit_request_##arch(void *engine, uint32_t delayed)                \
	{                                                                                        \
		const struct engine *e = find_engine(engine);                                           \
                                                                                                 \
		if (!e)                                                                          \
			original_##arch(engine, delayed);                                        \
		else if (--*e->counter->left < 0)                                                \
			look(e, original_##arch);                                                \
	}
#endif

#define COUNT(arch)                    \
	static check *original_##arch; \
	ENTRY(arch)

COUNT(x86_64)
COUNT(aarch64)
COUNT(riscv64)
COUNT(s390x)
COUNT(ppc64)
COUNT(mips64el)

typedef void trace(int32_t size, uint32_t kind, void *engine, uint64_t address);

static trace *original_trace;

/* Whether a call of helper_uc_tracecode() is for the hooks of a block, and they are to be called. */
static bool is_block(uint32_t kind, const void *engine)
{
	return kind == HOOKS_OF_BLOCKS && !AT(bool, engine, ENGINE_STOPS);
}

/* Return whether an instruction has to call its hooks. */
static bool at_code(const struct block_counter *c, uint64_t address, uint32_t size)
{
	return c->at_code(c->argument, address, size) || c->code_shared;
}

/* Take a call out of translated code, whose instruction needs it no more. end: of the call. */
static void forget_call(uint8_t *end)
{
#ifdef __x86_64__
	static const uint8_t nops[] = { 0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00 };

	if (end[-6] == 0xff && end[-5] == 0x15) /* call *offset(%rip) */
		__builtin_memcpy(end - 6, nops, 6);
	else if (end[-5] == 0xe8) /* call */
		__builtin_memcpy(end - 5, nops + 1, 5);
#else
	(void)end;
#endif
}

/*
 * libunicorn calls the hooks of a block or an instruction by this function, and looks through the
 * list of all that there are. An engine whose hooks of blocks have one function need not. Behind one that wants
 * the engine to stop here it leaves the code as the function for blocks does, which finds the
 * instruction by the return address.
 */
API void helper_uc_tracecode(int32_t size, uint32_t kind, void *engine, uint64_t address)
{
	const struct engine *e = find_engine(engine);
	check *leave;

	if (e && e->counter->at_block && is_block(kind, engine)) {
		e->counter->at_block(engine, address, size, e->counter->argument);
	} else if (e && kind == HOOKS_OF_CODE && e->counter->at_code) {
		if (AT(bool, engine, ENGINE_STOPS))
			return;
		if (!at_code(e->counter, address, size))
			forget_call(__builtin_return_address(0));
		if (e->counter->code_shared && !e->counter->leave)
			original_trace(size, kind, engine, address);
	} else {
		original_trace(size, kind, engine, address);
		e = find_engine(engine);
	}
	if (!e || !e->counter->leave)
		return;
	leave = e->counter->leave;
	e->counter->leave = 0;
	pc_is_not_right(engine);
	leave(engine, 0);
}

/* Have the hooks of an engine's blocks called one by one: others than its own are added. */
API void blocks_share(const void *engine)
{
	const struct engine *e = find_engine(engine);

	if (e)
		e->counter->at_block = 0;
}

/* Have the hooks of an engine's instructions called behind at_code: others than its own are added. */
API void blocks_share_code(const void *engine)
{
	const struct engine *e = find_engine(engine);

	if (e)
		e->counter->code_shared = 1;
}

const struct block_counter *blocks_counter(const void *state)
{
	const struct engine *e = find_state(state);

	return e ? e->counter : 0;
}

typedef void set_dr(void *state, int32_t number, uint64_t value);

typedef void read_msr(void *state);

static set_dr *original_set_dr;
static read_msr *original_read_msr;

/* This jumps to the original, too, as that may raise an exception of its caller. */
API void helper_set_dr_x86_64(void *state, int32_t number, uint64_t value)
{
	const struct block_counter *c = blocks_counter(state);

	if (c && c->set_dr)
		c->set_dr(c->argument, number, value);
	original_set_dr(state, number, value);
}

/* So does this. */
API void helper_rdmsr_x86_64(void *state)
{
	const struct block_counter *c = blocks_counter(state);

	if (!c || !c->read_msr || !c->read_msr(c->argument))
		original_read_msr(state);
}

#define MIN_RUN_STEP 16

/*
 * End a run that has had its blocks, or that takes long: code whose blocks are all new, as where
 * paging is off, takes a millisecond for each. The host's clock must not decide what the guest does.
 * So the block before which it ends a run does not count until it begins again.
 */
API void blocks_end_run(void *counter)
{
	struct block_counter *c = counter;
	uint64_t begun = blocks_begun(c), now, next;

	if (begun >= c->run_end) {
		c->emu_stop(c->engine);
		return;
	}
	now = host_ticks();
	c->early = c->run_since && now - c->run_since > c->run_ticks;
	if (c->early) {
		c->run_step = MIN_RUN_STEP;
		c->run_since = 0;
	} else if (!c->run_since) {
		c->run_since = now;
	} else if (c->run_step < MAX_RUN_STEP) {
		c->run_step *= 2;
	}
	next = begun + c->run_step;
	c->look = next < c->run_end ? next : c->run_end;
	if (!c->early)
		return;
	blocks_take_back(c);
	c->emu_stop(c->engine);
}

ORIGINALS(ORIGINAL("helper_uc_tracecode", original_trace),
	  ORIGINAL("helper_check_exit_request_x86_64", original_x86_64),
	  ORIGINAL("helper_check_exit_request_aarch64", original_aarch64),
	  ORIGINAL("helper_check_exit_request_riscv64", original_riscv64),
	  ORIGINAL("helper_check_exit_request_s390x", original_s390x),
	  ORIGINAL("helper_check_exit_request_ppc64", original_ppc64),
	  ORIGINAL("helper_check_exit_request_mips64el", original_mips64el),
	  ORIGINAL("helper_set_dr_x86_64", original_set_dr),
	  ORIGINAL("helper_rdmsr_x86_64", original_read_msr));

extern struct original __start_originals[], __stop_originals[];

/* Return the table of all functions of libunicorn that are called here. */
API struct original *emulator_originals(uint64_t *count)
{
	*count = __stop_originals - __start_originals;
	return __start_originals;
}

/* The libunicorn that has been loaded since is the one that layout.h tells of. */
API void emulator_is_known(void)
{
	known = true;
}
