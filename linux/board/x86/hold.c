// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Have a processor wait before an access, and see who else accesses the same
 * bytes.
 *
 * Two accesses race if nothing orders them: a processor that waits before one
 * of them does not keep the other from coming. So while one waits, each access
 * of other text is compared with it. What a lock protects never meets so, as
 * the other processor waits for the lock.
 *
 * An instruction that reads and writes memory without a lock is one step here,
 * and two on processors. If others have changed its memory while it waited,
 * that change is taken back: so it is as if it had read before and writes
 * behind.
 */
#include "../hold.h"
#include "looks.h"

#define ACCESSES (INSN_READS | INSN_WRITES)
#define MODULES 0xffffffffc0000000ull /* the modules' text and data are above */
#define STALE                                                                  \
  10000000ull /* ns after its end in which a task may still come back to its   \
                 wait */
#define DIGEST 0x100000001b3ull /* FNV-1a's */

static struct holds *holds(const struct board *b)
{
	return (struct holds *)(uintptr_t)b->holds;
}

static void note(struct holds *s, u64 value)
{
	s->digest = (s->digest ^ value) * DIGEST;
}

static u64 read_ram(struct board *b, u64 phys, u64 bytes)
{
	u64 value = 0;

	if (phys + bytes <= b->ram_size)
		__builtin_memcpy(&value, (u8 *)(uintptr_t)b->ram + phys, bytes < 8 ? bytes : 8);
	return value;
}

/* Return whether an access is one that others can see. */
static bool is_shared(const struct look *l)
{
	return l->insn->flags & ACCESSES && l->bytes && l->phys != NEVER &&
	       !(l->insn->flags & (INSN_ON_STACK | INSN_PER_CPU));
}

/* Return whether two accesses of the same bytes go against each other. */
static bool conflict(u64 one, u64 other)
{
	if (!((one | other) & INSN_WRITES))
		return false;
	/* a locked instruction and a read, as of atomic_read() */
	if (one & INSN_LOCKED)
		return other & INSN_WRITES && !(other & INSN_LOCKED);
	if (other & INSN_LOCKED)
		return one & INSN_WRITES;
	return true;
}

static void note_party(struct board *b, struct party *p)
{
	keep_task(b, &p->pid, p->comm);
	keep_stack(b, stack_pointer(b), p->stack, PARTY_STACK);
}

/* Compare an access with those before which others wait. */
static void compare(struct board *b, const struct look *l)
{
	u64 sp = stack_pointer(b);

	for (u64 i = 0; i < b->nr_cpus; i++) {
		struct hold *h = &holds(b)->hold[i];
		struct finding *f;

		if (!h->at || (h->at == l->at && h->sp == sp))
			continue;
		if (i == b->current)
			h->shared = 1;
		if (h->until && h->until == l->at)
			b->held[i] = 0;
		if (!is_shared(l) || h->phys == NEVER || l->phys + l->bytes <= h->phys ||
		    h->phys + h->bytes <= l->phys || !conflict(h->flags, l->insn->flags))
			continue;
		h->raced = 1;
		f = text_report(b, FOUND_RACE, l->at, h->at);
		if (!f)
			continue;
		f->a = l->addr;
		f->b = h->flags;
		f->c = i;
		holds(b)->parties[f - texts(b)->findings] = h->party;
	}
}

/* The wait is over: tell what has changed meanwhile, and tear an instruction in
 * two. */
static void end(struct board *b, struct hold *h)
{
	u64 value, at = h->at;
	struct finding *f;

	h->at = 0;
	b->held[b->current] = 0;
	if (h->phys == NEVER || h->bytes > 8)
		return;
	value = read_ram(b, h->phys, h->bytes);
	if (value == h->value || h->flags & INSN_LOCKED)
		return;
	/* many fields of the kernel's own objects change so, with a lock or without, rightly */
	if (!h->raced && h->addr >= MODULES && (f = text_report(b, FOUND_CHANGED, at, 0))) {
		f->a = h->value;
		f->b = value;
		f->c = h->flags;
	}
	if ((h->flags & ACCESSES) != ACCESSES || h->shared)
		return;
	__builtin_memcpy((u8 *)(uintptr_t)b->ram + h->phys, &h->value, h->bytes);
	holds(b)->torn++;
	note(holds(b), at ^ 1);
}

/* Have the processor wait before this instruction. */
static void wait(struct board *b, struct look *l, u64 ns, u64 until)
{
	struct holds *s = holds(b);
	struct hold *h = &s->hold[b->current];

	*h = (struct hold){ .at = l->at,
			    .sp = stack_pointer(b),
			    .phys = NEVER,
			    .until = until,
			    .flags = l->insn->flags };
	if (is_shared(l)) {
		h->addr = l->addr;
		h->phys = l->phys;
		h->bytes = l->bytes;
		h->value = read_ram(b, h->phys, h->bytes);
	}
	note_party(b, &h->party);
	b->held[b->current] = settle(b) + ns;
	b->deaf[b->current] = !takes_interrupts(b);
	s->held++;
	note(s, l->at ^ b->current << 56 ^ ns << 20);
	text_hold(b, l);
}

/* Let the time come at which the processor's next timer is due. */
static void let_timer_come(struct board *b)
{
	const struct cpu *c = this_cpu(b);

	if (c->timer == NEVER || !takes_interrupts(b))
		return;
	if (settle(b) < c->timer)
		b->now = c->timer;
	holds(b)->timers++;
	set_due(b);
}

/* Return the order for this access, if there is one. */
static const struct order *find_order(struct holds *s, const struct look *l)
{
	const struct order *found = NULL;

	while (s->next_order < s->nr_orders && !s->orders[s->next_order].at &&
	       s->orders[s->next_order].number <= s->accesses)
		found = &s->orders[s->next_order++];
	for (u64 i = s->nr_orders; i-- && s->orders[i].at;)
		if (s->orders[i].at == l->at && ++s->seen[i] == s->orders[i].number)
			found = &s->orders[i];
	return found;
}

/* Return whether this access is one of those that wait if each one does. */
static bool is_new(struct holds *s, const struct look *l)
{
	u8 *often = &s->places[(l->at * 0x9e3779b97f4a7c15ull >> 40) & (NR_PLACES - 1)];

	if (!s->each_ns || !is_shared(l) || *often >= MOST_HELD)
		return false;
	++*often;
	return true;
}

bool look_hold(struct board *b, struct look *l)
{
	struct holds *s = holds(b);
	struct hold *h;
	const struct order *order;

	if (!s || !l->insn->flags || !(l->insn->flags & (ACCESSES | INSN_CALLS)) ||
	    l->insn->flags & INSN_ON_STACK)
		return false;
	h = &s->hold[b->current];
	if (l->again && h->at == l->at && h->sp == stack_pointer(b)) {
		if (b->held[b->current] > settle(b)) {
			/* it was there for an interrupt */
			b->deaf[b->current] = !takes_interrupts(b);
			text_hold(b, l);
			return true;
		}
		end(b, h);
		compare(b, l);
		return false;
	}
	s->accesses++;
	compare(b, l);
	order = find_order(s, l);
	if (h->at && b->held[b->current] + STALE > settle(b))
		return false; /* an interrupt, or another task, while the one before waits
                   */
	if (order) {
		if (order->timer)
			let_timer_come(b);
		wait(b, l, order->ns, order->until);
		return true;
	}
	if (!is_new(s, l))
		return false;
	wait(b, l, s->each_ns, 0);
	return true;
}

bool look_fault(struct board *b, struct look *l)
{
	struct holds *s = holds(b);
	struct finding *f;
	bool fails = false;

	if (!s || !l->callee || !l->callee->fails || l->again)
		return false;
	s->calls++;
	for (u64 i = 0; i < s->nr_faults; i++)
		fails |= s->faults[i] == s->calls;
	if (!fails)
		return false;
	note(s, l->at ^ 2);
	f = text_report(b, FOUND_FAULT, l->at, s->calls);
	if (f) {
		f->a = l->callee->address;
	}
	text_skip(b, l,
		  l->callee->fails_as == NO_ARGUMENT ? (u64)l->callee->error :
						       argument(b, l->callee->fails_as));
	return true;
}
