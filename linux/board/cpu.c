// SPDX-License-Identifier: GPL-2.0-or-later
/* Processors and their turns. */
#include "internal.h"

/* Return whether an interrupt of a processor waits for being taken. */
bool interrupt_due(const struct board *b, const struct cpu *c)
{
	return b->now >= c->timer || pending(c);
}

/* Set the block before which the running processor needs the next look. */
void set_look(struct board *b)
{
	u64 now = settle(b), blocks = begun(b);
	u64 look = (blocks | (LOOK_BLOCKS - 1)) + 1;

	if (b->due <= now)
		look = blocks + 1;
	else if ((b->due - now - 1) / NS_PER_BLOCK < look - blocks)
		look = blocks + 1 + (b->due - now - 1) / NS_PER_BLOCK;
	if (b->host_turn < look)
		look = b->host_turn;
	blocks_look(&b->counter, look);
}

/* Set the time at which the running processor needs the next look. */
void set_due(struct board *b)
{
	const struct cpu *c = this_cpu(b);

	b->due = c->timer < b->turn_end ? c->timer : b->turn_end;
	if (pending(c))
		b->due = 0;
	set_look(b);
}

/* Switch to another processor. */
void select_cpu(struct board *b, u64 number)
{
	struct cpu *c = &b->cpus[number];

	if (number != b->current) {
		switch_context(b, this_cpu(b), c);
		b->current = number;
		b->turns++;
	}
	if (c->start != NEVER) {
		uc.context_restore(engine(b), (void *)(uintptr_t)b->reset);
		start_cpu(b);
		c->start = NEVER;
		uc.ctl(engine(b), UC_CTL_TLB_FLUSH);
	}
}

/* Return the time for code that asks for it, which takes some. */
u64 read_time(struct board *b)
{
	settle(b);
	b->now += NS_PER_LOOK;
	set_look(b);
	return b->now;
}

/* An interrupt was sent to a processor, which runs next, as the sender mostly waits for an answer. */
void notify(struct board *b, const struct cpu *c)
{
	if (c != this_cpu(b))
		b->turn_end = settle(b);
	set_due(b);
}

/* Start a processor at an address, or return false if it is not off. */
bool turn_on(struct board *b, struct cpu *c, u64 entry)
{
	if (c->state != CPU_OFF)
		return false;
	reset_cpu(c);
	c->start = entry;
	c->state = CPU_RUNS;
	b->turn_end = settle(b);
	set_due(b);
	return true;
}

/* Likewise, by its number, with what start_cpu() is to give it. */
bool turn_on_with(struct board *b, u64 number, u64 entry, u64 argument)
{
	if (number >= b->nr_cpus || !turn_on(b, &b->cpus[number], entry))
		return false;
	b->cpus[number].argument = argument;
	return true;
}

/* Have a processor do nothing until another one starts it. The running one ends its block, at most. */
void turn_off(struct board *b, struct cpu *c)
{
	c->state = CPU_OFF;
	if (c == this_cpu(b))
		board_stop(b, STOP_NEXT, HERE);
}

/* Return whether a processor waits before an access: see hold.h. */
static bool waits(const struct board *b, u64 number)
{
	return b->held[number] > b->now && b->cpus[number].state == CPU_RUNS;
}

static bool any_waits(const struct board *b)
{
	for (u64 i = 0; i < b->nr_cpus; i++)
		if (waits(b, i))
			return true;
	return false;
}

static bool can_run(const struct board *b, const struct cpu *c)
{
	u64 number = c - b->cpus;

	if (waits(b, number))
		return !b->deaf[number] && interrupt_due(b, c);
	return c->state == CPU_RUNS || (c->state != CPU_OFF && interrupt_due(b, c));
}

/* Return whether others can run, or will when they have waited. */
bool others_can_run(const struct board *b)
{
	for (u64 i = 0; i < b->nr_cpus; i++)
		if (i != b->current && (can_run(b, &b->cpus[i]) || waits(b, i)))
			return true;
	return false;
}

/* Set the end of the running processor's turn: when another one can run. */
void begin_turn(struct board *b)
{
	b->turn_end = NEVER;
	for (u64 i = 0; i < b->nr_cpus; i++) {
		const struct cpu *c = &b->cpus[i];
		u64 wants = NEVER;

		if (i == b->current)
			continue;
		if (can_run(b, c))
			wants = b->now + CPU_TURN;
		else if (c->state == CPU_HALTED || c->state == CPU_RESTS)
			wants = c->timer;
		else if (c->state == CPU_RUNS)
			wants = c->timer < b->held[i] && !b->deaf[i] ? c->timer : b->held[i];
		if (c->state == CPU_RESTS && c->since + PATIENCE < wants)
			wants = c->since + PATIENCE;
		if (wants < b->turn_end)
			b->turn_end = wants;
	}
	set_due(b);
}

/*
 * Return whether a processor may have a turn. One that rests may if no other can run, or if
 * it has rested for long.
 */
static bool may_run(const struct board *b, const struct cpu *c, bool nobody)
{
	if (c->state == CPU_RESTS && ((nobody && !any_waits(b)) || b->now >= c->since + PATIENCE))
		return true;
	return can_run(b, c);
}

/*
 * Switch to the next processor that can run; the current one comes last. If all have halted or
 * wait, time passes to the first timer, or to the end of the first wait. False: none will ever run again.
 */
bool next_cpu(struct board *b)
{
	u64 first = NEVER;

	for (int nobody = 0; nobody < 2; nobody++) {
		for (u64 i = 1; i <= b->nr_cpus; i++) {
			u64 number = (b->current + i) % b->nr_cpus;

			if (may_run(b, &b->cpus[number], nobody)) {
				select_cpu(b, number);
				return true;
			}
		}
	}
	for (u64 i = 0; i < b->nr_cpus; i++) {
		const struct cpu *c = &b->cpus[i];

		if (waits(b, i) && b->held[i] < first)
			first = b->held[i];
		if ((c->state == CPU_HALTED || (waits(b, i) && !b->deaf[i])) && c->timer < first)
			first = c->timer;
	}
	if (first == NEVER)
		return false;
	b->now = first;
	return next_cpu(b);
}

/* Wake the agent for the host's request, if it rests. */
void call_agent(struct board *b)
{
	if (!b->call_agent)
		return;
	b->call_agent = 0;
	for (u64 i = 0; i < b->nr_cpus; i++) {
		struct cpu *c = &b->cpus[i];

		if (i != b->current && c->state == CPU_RESTS) {
			c->state = CPU_RUNS;
			c->called = 1;
		}
	}
}

/* Every processor starts from the state of an engine that has not run yet. */
bool add_cpus(struct board *b)
{
	for (u64 i = 0; i < b->nr_cpus; i++) {
		b->cpus[i].start = NEVER;
		reset_cpu(&b->cpus[i]);
		b->cpus[i].state = i ? CPU_OFF : CPU_RUNS;
	}
	/* a processor alone can be reset, too, by itself */
	for (u64 i = 0; i <= b->nr_cpus; i++) {
		u64 *place = i < b->nr_cpus ? &b->cpus[i].context : &b->reset;
		void *context;

		if (uc.context_alloc(engine(b), &context))
			return false;
		*place = (uintptr_t)context;
		if (uc.context_save(engine(b), context))
			return false;
	}
	return true;
}
