// SPDX-License-Identifier: GPL-2.0-or-later
/* The main loop of the board: turns of libunicorn, and the work between them. */
#include "internal.h"
#include "search/text.h"

#define GO_ON NEVER /* the host has nothing to do */

/* Handle what is due. True: stop before this block, or look no further at it. addr: or HERE. */
static bool attend(struct board *b, u64 addr)
{
	struct cpu *c = this_cpu(b);

	if (b->flushed_at) {
		b->flushed_at = 0;
		set_due(b);
		return true;
	}
	if (interrupt_due(b, c)) {
		if (takes_interrupts(b)) {
			board_stop(b, STOP_IRQ, addr);
			return true;
		}
		if (!c->late)
			c->late = begun(b);
		if (begun(b) - c->late >= LOCKED_OUT) {
			board_stop(b, STOP_LOCKUP, addr);
			return true;
		}
	}
	if (settle(b) < b->turn_end)
		return false;
	board_stop(b, STOP_NEXT, addr);
	return true;
}

/* Code that writes itself may take milliseconds for a block. */
static bool is_slow(const struct board *b)
{
	return !(begun(b) & (LOOK_BLOCKS - 1)) && begun(b) != b->slow_at &&
	       host_ticks() - b->begin > b->turn_ticks;
}

/* The host's clock has decided this. So the block does not count until it begins again. */
static void stop_early(struct board *b, u64 addr)
{
	b->slow_at = begun(b);
	blocks_take_back(&b->counter);
	board_stop(b, STOP_TURN, addr);
}

/* Called where blocks of code begin: only there can the board stop exactly. True: as attend(). */
static bool look(struct board *b, u64 addr)
{
	if (begun(b) == b->entered) {
		set_look(b);
		return false;
	}
	if (settle(b) >= b->due && attend(b, addr))
		return true;
	if (begun(b) >= b->host_turn) {
		board_stop(b, STOP_TURN, addr);
		return true;
	}
	if (is_slow(b)) {
		stop_early(b, addr);
		return true;
	}
	set_look(b);
	return false;
}

/* Called by libunicorn's count, unless on_block() has stopped this block. */
static void at_look(void *data)
{
	struct board *b = data;

	if (b->stop_at == NEVER)
		look(b, HERE);
}

static void on_block(void *u, u64 addr, u32 size, void *data)
{
	struct board *b = data;

	(void)u, (void)size;
	--*b->counter.left;
	if (begun(b) == b->entered)
		;
	else if (addr == b->pause)
		board_stop(b, STOP_PAUSE, addr);
	else if (addr - b->break_at <= local_entry && function_at(b, addr) == b->break_at)
		board_stop(b, STOP_BREAK, addr);
	else if (begun(b) >= b->counter.look && look(b, addr))
		;
	else if (*watched(b, addr))
		watch_block(b, addr, *watched(b, addr));
	settle(b);
	if (b->counts) /* libunicorn counts this block only now */
		blocks_take_back(&b->counter);
}

static bool on_stray(uc_engine u, int type, u64 addr, int size, int64_t value, void *data)
{
	struct board *b = data;

	(void)u, (void)type, (void)size, (void)value;
	b->strays++;
	b->stray_at = addr;
	return false;
}

static bool interrupt(struct board *b)
{
	int number = next_interrupt(b);

	this_cpu(b)->late = 0;
	set_due(b);
	if (number < 0)
		return true;
	b->interrupts++;
	return deliver_interrupt(b, number);
}

/* Move the processor behind the agent's pause, if it stands there. */
static void pass_pause(struct board *b)
{
	u64 *at = pc(b);

	if (*at == b->pause)
		*at += pause_size;
}

/* No other processor can run, or not soon: tell the host, or let the agent look again. */
static u64 rested(struct board *b)
{
	b->who = argument(b, 0);
	if (b->who != PAUSE_YIELD)
		return STOP_PAUSE;
	pass_pause(b);
	return GO_ON;
}

/* Give the turn to the next processor, which may be the same one. */
static u64 next(struct board *b)
{
	struct cpu *c;
	bool rests;

	if (!next_cpu(b))
		return STOP_HALTED;
	c = this_cpu(b);
	rests = c->state == CPU_RESTS && !interrupt_due(b, c);
	c->state = CPU_RUNS;
	if (c->called)
		pass_pause(b);
	c->called = 0;
	begin_turn(b);
	return rests ? rested(b) : GO_ON;
}

/* A task's pause concerns the host at once; the agent's only if nothing else can run. */
static u64 at_pause(struct board *b)
{
	struct cpu *c = this_cpu(b);

	b->who = argument(b, 0);
	if (b->who != AGENT_SLOT && b->who != PAUSE_YIELD)
		return STOP_PAUSE;
	b->agent_stack = stack_pointer(b);
	if (!others_can_run(b))
		return rested(b);
	c->state = CPU_RESTS;
	c->since = b->now;
	return next(b);
}

/* Halted without interrupts it never goes on by itself, but another may restart it. */
static u64 halt(struct board *b)
{
	b->halts++;
	this_cpu(b)->state = is_woken(b) ? CPU_HALTED : CPU_OFF;
	return next(b);
}

/* Return whether a debugger has stopped the processor; its block is under way, then. */
static bool debugged(struct board *b)
{
	const struct stops *stops = (const struct stops *)(uintptr_t)b->stops;

	if (!stops || !stops->why)
		return false;
	b->entered = begun(b);
	return true;
}

/* The rest of a block is no other block, unless the debugger goes on elsewhere. */
static void go_on_in_block(struct board *b)
{
	if (begun(b) != b->entered)
		return;
	if (linear_pc(b) == ((const struct stops *)(uintptr_t)b->stops)->address)
		blocks_take_back(&b->counter);
	else
		b->entered = NEVER;
}

/* The instruction that a looker wanted left is left. */
static void left_at_last(struct board *b)
{
	if (b->texts)
		((struct texts *)(uintptr_t)b->texts)->memo_stop = 0;
}

__attribute__((weak)) void before_run(struct board *b)
{
	(void)b;
}

__attribute__((weak)) void after_run(struct board *b)
{
	(void)b;
}

/* Run libunicorn up to the next stop. */
static u64 run_once(struct board *b)
{
	b->stop = STOP_TURN;
	b->stop_at = NEVER;
	before_run(b);
	go_on_in_block(b);
	b->error = uc.emu_start(engine(b), *pc(b), nowhere, 0, 0);
	after_run(b);
	left_block(b, linear_pc(b));
	settle(b);
	if (b->error)
		return STOP_ERROR;
	if (debugged(b))
		return STOP_DEBUG;
	if (b->stop_at == NEVER)
		return STOP_HALTED;
	if ((b->stop <= STOP_CALL || b->stop == STOP_HOOK) && b->stop_at != HERE &&
	    linear_pc(b) != b->stop_at)
		return STOP_LOST;
	return b->stop;
}

__attribute__((visibility("default"))) void board_flush(struct board *b)
{
	uc.ctl(engine(b), UC_CTL_TB_FLUSH);
}

/* Run up to the next stop and handle it; GO_ON if the host has nothing to do. */
static u64 step(struct board *b)
{
	u64 why;

	/* after a flush, and for a debugger, the block must run before anything else */
	if (!b->flushed_at && begun(b) != b->entered && interrupt_due(b, this_cpu(b)) &&
	    takes_interrupts(b) && !interrupt(b))
		return STOP_FAULT;
	why = run_once(b);
	if (why == STOP_NEXT || why == STOP_ACT)
		left_at_last(b);
	switch (why) {
	case STOP_PAUSE:  return at_pause(b);
	case STOP_HALTED: return halt(b);
	case STOP_NEXT:   return next(b);
	case STOP_IRQ:    return GO_ON;
	case STOP_HIDE:   hide_now(b); return GO_ON;
	case STOP_ACT:    ((struct texts *)(uintptr_t)b->texts)->act(b); return GO_ON;
	case STOP_HOOK:
		if (hook_return(b))
			board_flush(b);
		return GO_ON;
	case STOP_FLUSH:
		b->flushes++;
		b->due = 0;
		set_look(b);
		uc.ctl(engine(b), UC_CTL_TB_FLUSH);
		return GO_ON;
	}
	return why;
}

static void set_deadline(struct board *b)
{
	b->deadline = NEVER;
	for (u64 i = 0; i < b->nr_cpus; i++)
		if (b->cpus[i].timer < b->deadline)
			b->deadline = b->cpus[i].timer;
}

/* Run until the host has to act; return one of STOP_*. */
__attribute__((visibility("default"))) u64 board_run(struct board *b)
{
	u64 turn_end = b->turn_end, why;

	/* the host sets them whenever it likes */
	if (hook_block(b, b->pause) | hook_block(b, b->break_at) | hook_return(b))
		board_flush(b);
	pass_pause(b);
	call_agent(b);
	begin_turn(b);
	if (turn_end < b->turn_end) { /* keep the rest of the turn */
		b->turn_end = turn_end;
		set_due(b);
	}
	if (!b->host_turn || b->stop == STOP_TURN) /* else it is still to come */
		b->host_turn = (begun(b) | (TURN_BLOCKS - 1)) + 1;
	set_look(b);
	b->begin = host_ticks();
	/* steps may be short, and their last blocks those at which there is no turn */
	do
		why = step(b);
	while (why == GO_ON && begun(b) < b->host_turn && host_ticks() - b->begin < b->turn_ticks);
	set_deadline(b);
	return why == GO_ON ? STOP_TURN : why;
}

/* Make the registers those of one processor; the next run begins on it. */
__attribute__((visibility("default"))) void board_select(struct board *b, u64 number)
{
	select_cpu(b, number);
}

__attribute__((visibility("default"))) u64 board_translate(struct board *b, u64 addr, int space)
{
	return board_walk_in(b, addr, space);
}

/* Take over a new list of functions to watch. */
__attribute__((visibility("default"))) void board_watch(struct board *b)
{
	watch(b);
}

/* Hook into an engine whose memory is mapped and whose state is known; false on failure. */
__attribute__((visibility("default"))) bool board_init(struct board *b)
{
	const int unmapped = UC_HOOK_MEM_READ_UNMAPPED | UC_HOOK_MEM_WRITE_UNMAPPED |
			     UC_HOOK_MEM_FETCH_UNMAPPED;
	uc_engine u = engine(b);
	size_t hook;

	b->on_block = (uintptr_t)on_block;
	b->counter.at_look = at_look;
	b->counter.argument = b;
	b->counter.at_block = on_block;
	b->entered = NEVER;
	/* a hook over RAM itself would make every access slow */
	if ((!b->counts && !hook_all(b)) ||
	    uc.hook_add(u, &hook, unmapped, on_stray, b, b->ram_size, 0xffffffffffff))
		return false;
	if (!b->tracks && !hook_stores(b))
		return false;
	return init_arch(b) && add_cpus(b);
}
