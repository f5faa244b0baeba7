// SPDX-License-Identifier: GPL-2.0-or-later
/* The board runs: turns of libunicorn, and what is done between them. */
#include "internal.h"

struct uc_api uc;

void board_stop(struct board *b, u64 why, u64 at)
{
	b->stop = why;
	b->stop_at = at;
	uc.emu_stop(engine(b));
}

/*
 * Code that is written through one mapping of its page and run through another is not seen
 * by libunicorn. The kernel does so in few functions: when one returns, all translations go.
 */
static void watch_flusher(struct board *b, u64 addr)
{
	for (int i = 0; i < NR_FLUSHERS; i++)
		if (b->flushers[i] == addr)
			b->flush_at = read_word(b, state(b)->regs[RSP]);
}

/* Not right behind sti either: "sti; hlt" is one thing. */
static bool takes_interrupts(const struct board *b)
{
	const struct state *s = state(b);

	return s->flags & FLAGS_IF && !(s->hflags & HFLAG_INHIBIT_IRQ);
}

/* At the begin of each block of code: the only place where the board stops exactly. */
static void on_block(uc_engine u, u64 addr, u32 size, void *data)
{
	struct board *b = data;

	(void)u, (void)size;
	b->blocks++;
	b->now += NS_PER_BLOCK;
	if (addr == b->pause)
		board_stop(b, STOP_PAUSE, addr);
	else if (addr == b->break_at)
		board_stop(b, STOP_BREAK, addr);
	else if (addr == b->flush_at)
		board_stop(b, STOP_FLUSH, addr);
	else if (interrupt_due(b) && takes_interrupts(b))
		board_stop(b, STOP_IRQ, addr);
	else if (b->now >= b->timer && b->now - b->timer >= LOCKED_OUT)
		board_stop(b, STOP_LOCKUP, addr);
	else if (!(b->blocks & (TURN_BLOCKS - 1)))
		board_stop(b, STOP_TURN, addr);
	else if (b->flusher_bits >> (addr >> 4 & 63) & 1)
		watch_flusher(b, addr);
}

static bool on_stray(uc_engine u, int type, u64 addr, int size, int64_t value, void *data)
{
	struct board *b = data;

	(void)u, (void)type, (void)size, (void)value;
	b->strays++;
	b->stray_at = addr;
	return false;
}

/*
 * A hook that never fires, but whose presence makes libunicorn check every store against the
 * code that it has translated.
 */
static bool on_fetch(uc_engine u, int type, u64 addr, int size, int64_t value, void *data)
{
	return on_stray(u, type, addr, size, value, data);
}

/* Interrupts come if any is due; false: there will never be one. */
static bool halt(struct board *b)
{
	b->halts++;
	if (!(state(b)->flags & FLAGS_IF))
		return false;
	if (!interrupt_due(b)) {
		if (b->timer == NEVER)
			return false;
		b->now = b->timer;
	}
	return true;
}

static void interrupt(struct board *b)
{
	int vector;

	timer_tick(b);
	vector = next_vector(b);
	if (vector >= 0) {
		b->interrupts++;
		deliver(b, vector, false, 0);
	}
}

/* One run of libunicorn, up to the next stop. */
static u64 run_once(struct board *b)
{
	struct state *s = state(b);

	b->stop = STOP_TURN;
	b->stop_at = NEVER;
	forget_exception(b);
	b->error = uc.emu_start(engine(b), s->ip, 1, 0, 0);
	/* it ends by looking up the address to stop at, a page fault that sets cr2 */
	s->cr[2] = b->cr2;
	if (b->error)
		return STOP_ERROR;
	if (b->stop_at == NEVER)
		return STOP_HALTED;
	if (b->stop <= STOP_IRQ && s->ip != b->stop_at)
		return STOP_LOST;
	return b->stop;
}

/* Run until the host is to do something; the reason is one of STOP_*. */
__attribute__((visibility("default"))) u64 board_run(struct board *b)
{
	struct state *s = state(b);

	if (s->ip == b->pause)
		s->ip += 2; /* behind the instruction pause */
	for (;;) {
		u64 why;

		if (interrupt_due(b) && takes_interrupts(b))
			interrupt(b);
		why = run_once(b);
		switch (why) {
		case STOP_HALTED:
			if (!halt(b))
				return why;
			break;
		case STOP_FLUSH:
			b->flush_at = 0;
			b->flushes++;
			uc.ctl(engine(b), UC_CTL_TB_FLUSH);
			break;
		case STOP_IRQ: break;
		default:       return why;
		}
	}
}

__attribute__((visibility("default"))) void board_flush(struct board *b)
{
	uc.ctl(engine(b), UC_CTL_TB_FLUSH);
}

__attribute__((visibility("default"))) void board_user_mode(struct board *b)
{
	set_mode(b, MODE_USER);
}

__attribute__((visibility("default"))) u64 board_translate(struct board *b, u64 cr3, u64 addr)
{
	return board_walk(b, cr3, addr);
}

/* Attach to the engine, whose memory is mapped and whose state is known; false: it refused. */
__attribute__((visibility("default"))) bool board_init(struct board *b, const struct uc_api *api)
{
	const int unmapped = UC_HOOK_MEM_READ_UNMAPPED | UC_HOOK_MEM_WRITE_UNMAPPED |
			     UC_HOOK_MEM_FETCH_UNMAPPED;
	uc_engine u = engine(b);
	size_t hook;

	uc = *api;
	/* a hook over memory itself would make every access slow */
	if (uc.hook_add(u, &hook, UC_HOOK_BLOCK, on_block, b, 1, 0) ||
	    uc.hook_add(u, &hook, unmapped, on_stray, b, b->ram_size, 0xffffffffffff))
		return false;
	if (b->exact &&
	    uc.hook_add(u, &hook, UC_HOOK_MEM_FETCH_PROT, on_fetch, b, 0, b->ram_size - 1))
		return false;
	return hook_traps(b) && hook_ports(b) && map_apic(b);
}
