// SPDX-License-Identifier: GPL-2.0-or-later
/* The TOD clock, its comparator, and the timer of each processor, which libunicorn only has by name. */
#include "s390x.h"

/* the clock when the board starts: 4096 in a microsecond since 1900 */
#define TOD_BEGIN 0xdef4500000000000ull
#define SOON 2 /* ns: it is later than the comparator then, by any rounding */
#define FAR (1ull << 62)

static u64 units(u64 ns)
{
	return (ns / 125 << 9) + ((ns % 125 << 9) / 125);
}

u64 clock_of(const struct board *b)
{
	return TOD_BEGIN + units(b->now);
}

/* Return when the clock will be past a value, in ns. */
static u64 ns_past(const struct board *b, u64 value)
{
	u64 left = value - clock_of(b);

	if (value < clock_of(b))
		return b->now;
	return left >= FAR ? NEVER : b->now + (left >> 9) * 125 + ((left & 511) * 125 >> 9) + SOON;
}

/* Set when the running processor's clocks interrupt it next, and look then. */
void set_timer(struct board *b)
{
	struct cpu *c = this_cpu(b);
	u64 at;

	settle(b);
	c->timer = NEVER;
	if (own(c)->enabled & CR0_COMPARATOR)
		c->timer = ns_past(b, own(c)->comparator);
	if (own(c)->enabled & CR0_TIMER && (at = ns_past(b, own(c)->timer_end)) < c->timer)
		c->timer = at;
	set_due(b);
}

/* Return the code of the external interrupt that a processor would take, or 0. */
u32 external(const struct board *b, const struct cpu *c)
{
	const struct s390x_cpu *o = own(c);

	if (o->emergency && o->enabled & CR0_EMERGENCY)
		return EMERGENCY;
	if (o->call && o->enabled & CR0_CALL)
		return CALL;
	if (o->enabled & CR0_COMPARATOR && clock_of(b) > o->comparator)
		return COMPARATOR;
	if (o->enabled & CR0_TIMER && (int64_t)(o->timer_end - clock_of(b)) < 0)
		return TIMER;
	return o->service && o->enabled & CR0_SERVICE ? SERVICE : 0;
}

static u64 read_clock(state_t *s)
{
	struct board *b = board_of(s);

	read_time(b);
	return clock_of(b);
}

static void set_comparator(state_t *s, u64 value)
{
	struct board *b = board_of(s);

	own(this_cpu(b))->comparator = value;
	set_timer(b);
}

static u64 read_comparator(state_t *s)
{
	return own(this_cpu(board_of(s)))->comparator;
}

static void set_processor_timer(state_t *s, u64 value)
{
	struct board *b = board_of(s);

	settle(b);
	own(this_cpu(b))->timer_end = clock_of(b) + value;
	set_timer(b);
}

static u64 read_processor_timer(state_t *s)
{
	struct board *b = board_of(s);

	settle(b);
	return own(this_cpu(b))->timer_end - clock_of(b);
}

REPLACE(helper_stck, read_clock);
REPLACE(helper_sck, ignored); /* the clock stays as it is, which is no error */
REPLACE(helper_sckc, set_comparator);
REPLACE(helper_stckc, read_comparator);
REPLACE(helper_spt, set_processor_timer);
REPLACE(helper_stpt, read_processor_timer);
