// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * How processors of ppc64 start and take turns, their clocks, and what is replaced.
 *
 * libunicorn reads time base and decrementer as plain words, which nothing moves; other registers of
 * its table call functions, which this board replaces. So those two get the functions of such others.
 */
#include "ppc64.h"

#define POWER9 0x004e1203 /* 2.3: later than most errata; libunicorn's POWER10 lacks its instructions */
#define MSR_BITS 0x800000000280ff37ull /* no hypervisor, no transactions */
#define LPCR_RADIX 0x2500400ull /* the kernel may invalidate, and has trees of its own */

/* Return whether an interrupt of another processor waits. */
bool is_sent(const struct cpu *c)
{
	return own(c)->message < own(c)->priority && !own(c)->taken;
}

bool pending(const struct cpu *c)
{
	return is_sent(c);
}

void reset_cpu(struct cpu *c)
{
	*own(c) = (struct ppc64_cpu){ .message = NO_MESSAGE };
	c->timer = NEVER;
}

int next_interrupt(struct board *b)
{
	const struct cpu *c = this_cpu(b);

	if (is_sent(c))
		return EXTERNAL;
	return b->now >= c->timer ? DECREMENTER : -1;
}

void start_cpu(struct board *b)
{
	state_t *s = state(b);

	set_msr(s, MSR_64 | MSR_ME | MSR_LE);
	s->nip = this_cpu(b)->start;
	s->gpr[3] = this_cpu(b)->argument;
	s->spr[PIR] = b->current;
}

void switch_context(struct board *b, struct cpu *from, struct cpu *to)
{
	uc.context_save(engine(b), (void *)(uintptr_t)from->context);
	uc.context_restore(engine(b), (void *)(uintptr_t)to->context);
	state(b)->reserve_addr = NEVER;
	own(to)->nr_touched = 0;
	uc.ctl(engine(b), UC_CTL_TLB_FLUSH);
}

/* The time base counts ns. */
static u64 read_clock(state_t *s)
{
	return read_time(board_of(s));
}

/* It interrupts when it is below 0, and until then. */
static u64 read_decrementer(state_t *s)
{
	struct board *b = board_of(s);

	return this_cpu(b)->timer - 1 - settle(b);
}

static void set_decrementer(state_t *s, u64 value)
{
	struct board *b = board_of(s);

	this_cpu(b)->timer = settle(b) + ((int32_t)value < 0 ? 0 : 1 + (u32)value);
	set_due(b);
}

/* columns of the table of special registers: kernels and hypervisors read and write */
enum { READ = 2, WRITE, READ_HV, WRITE_HV };

static bool move_clocks(state_t *s)
{
	u64 load = s->access[PURR][READ], read = s->access[HDECR][READ_HV],
	    write = s->access[HDECR][WRITE_HV];

	if (!load || !read || !write)
		return false;
	for (int who = 0; who <= READ_HV; who += READ)
		s->access[TIME_BASE][who] = load;
	s->access[DECR][READ] = s->access[DECR][READ_HV] = read;
	s->access[DECR][WRITE] = s->access[DECR][WRITE_HV] = write;
	return true;
}

bool init_arch(struct board *b)
{
	state_t *s = state(b);

	s->board = (uintptr_t)b;
	s->msr_mask = MSR_BITS;
	s->spr[PVR] = POWER9;
	s->spr[LPCR] = LPCR_RADIX;
	set_msr(s, MSR_64 | MSR_ME | MSR_LE);
	return move_clocks(s) && hook_exceptions(b, on_exception) &&
	       map_hole(b, HOLE_BASE, HOLE_END);
}

REPLACE(helper_load_purr, read_clock);
REPLACE(helper_store_purr, ignored);
REPLACE(helper_load_vtb_ppc64, read_clock);
REPLACE(helper_store_vtb_ppc64, ignored);
REPLACE(helper_store_tbu40_ppc64, ignored);
REPLACE(helper_load_hdecr_ppc64, read_decrementer);
REPLACE(helper_store_hdecr_ppc64, set_decrementer);
