// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Have an idle CPU serve a request by one turn. Nearly every request is done so, and in Python the
 * way to the guest and back takes as long as the guest.
 */
#include "idle_turn.h"

#define API __attribute__((visibility("default")))
#define REG_RIP 41
#define REG_RSP 44
#define REG_RFLAGS 253
#define FLAG_TF 0x100
#define FLAG_IF 0x200

static uint64_t read_reg(const struct idle_turn *t, int reg)
{
	uint64_t value = 0;

	t->reg_read(t->engine, reg, &value);
	return value;
}

static void write_reg(const struct idle_turn *t, int reg, uint64_t value)
{
	t->reg_write(t->engine, reg, &value);
}

static bool is_still(const struct idle_turn *t)
{
	const struct idle_turn_word *word = t->words;

	while (word->at && *word->at == word->value)
		word++;
	return !word->at && word != t->words;
}

/*
 * Run the loaded CPU from an address on. Return IDLE_TURN_DONE if the request is done and the CPU
 * idles again, and IDLE_TURN_STILL if all words are as they were, too. Return IDLE_TURN_HOST_OP if
 * a task stands at a host operation. Else return IDLE_TURN_BEGUN; err is libunicorn's error.
 */
static int run(struct idle_turn *t, uint64_t from, const uint64_t *request)
{
	struct hypercalls *h = t->hypercalls;

	*t->credit = t->turn_credit;
	h->ended = 0;
	blocks_run(h->counter, t->blocks);
	t->err = t->emu_start(t->engine, from, 0, 0, 0);
	if (!t->err && h->ended == t->host_op)
		return IDLE_TURN_HOST_OP;
	if (t->err || h->ended != t->idle || *request)
		return IDLE_TURN_BEGUN;
	return is_still(t) ? IDLE_TURN_STILL : IDLE_TURN_DONE;
}

/*
 * Wake a task, whose request is written already, by an interrupt of the loaded CPU, and run that.
 * Return IDLE_TURN_REFUSED, and do nothing, if the CPU is not where it idles or takes no interrupts.
 */
API int idle_turn(struct idle_turn *t, uint64_t task, const uint64_t *request)
{
	const struct hypercalls *h = t->hypercalls;
	uint64_t flags = read_reg(t, REG_RFLAGS);

	if (!(flags & FLAG_IF) || read_reg(t, REG_RSP) != t->sp)
		return IDLE_TURN_REFUSED;
	t->wakeups[0] = 1;
	t->wakeups[1] = task;
	t->frame[0] = read_reg(t, REG_RIP);
	t->frame[1] = t->cs;
	t->frame[2] = flags;
	t->frame[3] = t->sp;
	t->frame[4] = t->ss;
	write_reg(t, REG_RSP, t->top);
	write_reg(t, REG_RFLAGS, flags & ~(uint64_t)(FLAG_IF | FLAG_TF));
	hypercalls_look_at_clock(h, h->moves);
	return run(t, t->entry, request);
}

/* Go on behind a host operation that has been answered, by one more turn. */
API int idle_turn_go_on(struct idle_turn *t, const uint64_t *request)
{
	hypercalls_look_at_clock(t->hypercalls, ~t->hypercalls->moves);
	return run(t, read_reg(t, REG_RIP), request);
}
