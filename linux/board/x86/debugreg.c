// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Watchpoints of data in the debug registers. libunicorn has the registers, and breakpoints in
 * them, but lacks these.
 *
 * The exception comes behind the instruction that has touched the bytes. So all accesses are
 * hooked, and all instructions: the next one is not begun. That is slow, and so it is done only
 * while a processor has a watchpoint. The kernel sets and clears them at each switch to and from
 * a task that has some, and while it handles the exception. Hooking drops all translated code.
 * So the hooks stay until there has been no watchpoint for a while.
 */
#include "x86.h"

#define NR_WATCHPOINTS 4
#define DR6 6
#define DR7 7
#define DR7_ALIAS 5
#define HOW_DATA 1 /* in the four bits of a watchpoint in dr7 */
#define HOW_READS 2
#define HOOKS_STAY 100000000ull /* ns */

IMPORT(int, hook_del, uc_hook_del, (uc_engine u, size_t hook));

/* Return how dr7 has a watchpoint of data, 0 if it does not. */
static u64 how(u64 dr7, int number)
{
	u64 bits = dr7 >> (16 + 4 * number) & 15;

	return dr7 >> 2 * number & 3 && bits & HOW_DATA ? bits : 0;
}

/* Return whether an access to physical memory touches a watchpoint. */
static bool touches(const struct board *b, u64 addr, u64 length, u64 at, u64 size)
{
	u64 offset = (at - addr) & 4095;

	if (offset >= length && offset + size <= 4096)
		return false;
	addr = board_walk(b, addr);
	return at < addr + length && at + size > addr;
}

static void on_access(uc_engine u, int type, u64 at, int size, int64_t value, void *data)
{
	static const u8 lengths[] = { 1, 2, 8, 4 };
	struct board *b = data;
	const u64 *dr = debug_regs(b);

	(void)u, (void)value;
	for (int i = 0; i < NR_WATCHPOINTS; i++) {
		u64 bits = how(dr[DR7], i), length = lengths[bits >> 2];

		if (bits && (bits & HOW_READS || type == UC_MEM_WRITE) &&
		    touches(b, dr[i] & ~(length - 1), length, at, size))
			own(this_cpu(b))->touched |= 1ull << i;
	}
}

static void on_instruction(uc_engine u, u64 addr, u32 size, void *data)
{
	struct board *b = data;

	(void)u, (void)size;
	if (!own(this_cpu(b))->touched)
		return;
	stop_before(b, STOP_IRQ, addr);
}

/* Where libunicorn has only one hook of instructions, the instruction cannot be left. */
static void on_nothing(uc_engine u, u64 addr, u32 size, void *data)
{
	(void)u, (void)addr, (void)size, (void)data;
}

static void add_hooks(struct board *b)
{
	const int accesses = UC_HOOK_MEM_READ | UC_HOOK_MEM_WRITE;
	u64 *hooks = devices(b)->hooks;
	uc_engine u = engine(b);

	b->counter.hooks_need_no_pc = 1;
	b->counter.code_shared = 1;
	uc.hook_add(u, &hooks[0], accesses, on_access, b, 1, 0);
	uc.hook_add(u, &hooks[1], UC_HOOK_CODE, on_instruction, b, 1, 0);
	uc.hook_add(u, &hooks[2], UC_HOOK_CODE, on_nothing, b, NEVER, NEVER);
}

/* Called before the running processor writes a debug register, which ends the block. */
static void on_set_dr(void *data, int32_t number, u64 value)
{
	struct board *b = data;
	struct x86_cpu *c = own(this_cpu(b));

	if (number != DR7 && number != DR7_ALIAS)
		return;
	if (c->watches)
		devices(b)->watched_at = settle(b);
	c->watches = 0;
	for (int i = 0; i < NR_WATCHPOINTS; i++)
		c->watches |= how(value, i);
	if (!c->watches || devices(b)->hooks[0])
		return;
	add_hooks(b);
	b->flushed_at = HERE;
	board_stop(b, STOP_FLUSH, HERE);
}

/* Called between two runs: delete the hooks if there have been no watchpoints for a while. */
void drop_unused_hooks(struct board *b)
{
	struct x86_devices *d = devices(b);

	if (!d->hooks[0] || b->now < d->watched_at + HOOKS_STAY)
		return;
	for (u64 i = 0; i < b->nr_cpus; i++)
		if (own(&b->cpus[i])->watches)
			return;
	for (int i = 0; i < NR_DEBUG_HOOKS; i++) {
		hook_del(engine(b), d->hooks[i]);
		d->hooks[i] = 0;
	}
	b->counter.hooks_need_no_pc = 0;
	d->dropped = 1;
	uc.ctl(engine(b), UC_CTL_TB_FLUSH);
}

/* Called behind a run, in which libunicorn still had deleted hooks. */
void hooks_dropped(struct board *b)
{
	if (!devices(b)->dropped)
		return;
	devices(b)->dropped = 0;
	uc.ctl(engine(b), UC_CTL_TB_FLUSH);
}

/* An instruction that faults is not done with what it has touched. */
void forget_touched(struct board *b)
{
	own(this_cpu(b))->touched = 0;
}

/* Say in dr6 what was touched, and return whether anything was. The kernel clears dr6. */
bool next_debug(struct board *b)
{
	u64 touched = own(this_cpu(b))->touched;

	debug_regs(b)[DR6] |= touched;
	forget_touched(b);
	return touched;
}

void watch_debug_regs(struct board *b)
{
	b->counter.set_dr = on_set_dr;
}
