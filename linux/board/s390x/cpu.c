// SPDX-License-Identifier: GPL-2.0-or-later
/* How processors of s390x start, take turns, and signal each other; and what is replaced. */
#include "s390x.h"

#define KEY_SEARCH 0x8000 /* bytes behind the state that the number of keys may be in */
#define ID 0x004b504629648000ull
#define UNAVAILABLE 3 /* condition codes */
#define STATUS_STORED 1

/* orders of sigp, and bits of what they store */
enum {
	SENSE = 1,
	EXTERNAL_CALL,
	EMERGENCY_SIGNAL,
	START,
	STOP,
	RESTART,
	INITIAL_RESET = 11,
	RESET,
	SET_PREFIX,
	SET_ARCHITECTURE = 0x12,
	SENSE_RUNNING = 0x15,
};
#define INVALID_PARAMETER 0x100
#define INCORRECT_STATE 0x200
#define NOT_RUNNING 0x400
#define CALL_PENDING 0x80
#define STOPPED 0x40
#define INVALID_ORDER 2

bool pending(const struct cpu *c)
{
	const struct s390x_cpu *o = own(c);

	return o->step || (o->emergency && o->enabled & CR0_EMERGENCY) ||
	       (o->call && o->enabled & CR0_CALL) || (o->service && o->enabled & CR0_SERVICE);
}

void reset_cpu(struct cpu *c)
{
	*own(c) = (struct s390x_cpu){ .comparator = NEVER };
	c->timer = NEVER;
}

void start_cpu(struct board *b)
{
	state_t *s = state(b);

	s->prefix = own(this_cpu(b))->prefix;
	s->number = b->current;
	set_psw(b, get64(lowcore(b) + RESTART_NEW), get64(lowcore(b) + RESTART_NEW + 8));
}

void switch_context(struct board *b, struct cpu *from, struct cpu *to)
{
	uc.context_save(engine(b), (void *)(uintptr_t)from->context);
	uc.context_restore(engine(b), (void *)(uintptr_t)to->context);
	state(b)->number = to - b->cpus;
	devices(b)->primary = state(b)->cr[1];
	uc.ctl(engine(b), UC_CTL_TLB_FLUSH); /* each has a lowcore of its own, too */
}

static u32 store_status(state_t *s, u32 r1, u32 status)
{
	s->r[r1] = (s->r[r1] & ~0xffffffffull) | status;
	return STATUS_STORED;
}

static u32 signal_processor(state_t *s, u64 order, u32 r1, u32 r3)
{
	struct board *b = board_of(s);
	u64 parameter = s->r[r1 | 1], number = s->r[r3] & 0xffff;
	struct cpu *c = &b->cpus[number];
	u32 status;

	order &= 0xff;
	if (order == SET_ARCHITECTURE)
		return store_status(s, r1, INCORRECT_STATE);
	if (number >= b->nr_cpus)
		return UNAVAILABLE;
	switch (order) {
	case SENSE:
		status = (c->state == CPU_OFF ? STOPPED : 0) | (own(c)->call ? CALL_PENDING : 0);
		return status ? store_status(s, r1, status) : 0;
	case SENSE_RUNNING: return c == this_cpu(b) ? 0 : store_status(s, r1, NOT_RUNNING);
	case EXTERNAL_CALL:
		if (own(c)->call)
			return store_status(s, r1, CALL_PENDING);
		own(c)->call = b->current + 1;
		notify(b, c);
		return 0;
	case EMERGENCY_SIGNAL:
		own(c)->emergency |= 1ull << b->current;
		notify(b, c);
		return 0;
	case STOP:          turn_off(b, c); return 0;
	case INITIAL_RESET:
	case RESET:         return c->state == CPU_OFF ? 0 : store_status(s, r1, INCORRECT_STATE);
	case SET_PREFIX:
		if (c->state != CPU_OFF)
			return store_status(s, r1, INCORRECT_STATE);
		if (parameter > b->ram_size - LOWCORE_SIZE)
			return store_status(s, r1, INVALID_PARAMETER);
		own(c)->prefix = parameter & -LOWCORE_SIZE;
		return 0;
	case RESTART:
		parameter = own(c)->prefix;
		if (!turn_on(b, c, 0))
			return store_status(s, r1, INCORRECT_STATE);
		own(c)->prefix = parameter;
		return 0;
	}
	return store_status(s, r1, INVALID_ORDER);
}

/* There are neither channels nor reports of them. */
static void no_channel(state_t *s)
{
	s->cc_op = UNAVAILABLE;
}

static void no_report(state_t *s)
{
	s->cc_op = 1;
}

/*
 * Have no storage keys: for them libunicorn lets no page be written before its second fault. Their
 * number stands behind the state, before a pointer into the processor.
 */
static bool drop_keys(struct board *b)
{
	u64 begin = (uintptr_t)processor(b), at = b->state + sizeof(state_t);

	for (u64 end = at + KEY_SEARCH; at < end; at += 8) {
		u64 next = AT(u64, at, 8);

		if (AT(u32, at, 0) == S390X_KEYS && next - begin < 4 * KEY_SEARCH) {
			AT(u32, at, 0) = 0;
			return true;
		}
	}
	return false;
}

bool init_arch(struct board *b)
{
	state_t *s = state(b);

	s->board = (uintptr_t)b;
	s->id = ID;
	s->cr[0] = CR0_RESET;
	s->cr[14] = CR14_RESET;
	s->breaking_event = 1;
	return drop_keys(b) && hook_exceptions(b, on_exception);
}

REPLACE(helper_sigp, signal_processor);
REPLACE(helper_xsch, no_channel);
REPLACE(helper_csch, no_channel);
REPLACE(helper_hsch, no_channel);
REPLACE(helper_msch, no_channel);
REPLACE(helper_rchp, no_channel);
REPLACE(helper_rsch, no_channel);
REPLACE(helper_ssch, no_channel);
REPLACE(helper_stsch, no_channel);
REPLACE(helper_tsch, no_channel);
REPLACE(helper_chsc, no_channel);
REPLACE(helper_stcrw, no_report);
REPLACE(helper_tpi, ignored);
