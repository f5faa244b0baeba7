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
#include "hold.h"
#include "looks.h"

#define MAX_CLEARED 4096 /* bytes that a failing function would have written */
#define ACCESSES (INSN_READS | INSN_WRITES)
#define STALE                                                                  \
  10000000ull /* ns after its end in which a task may still come back to its   \
                 wait */
#define IN_STEP 8 /* the inverse of how far tasks are apart that do the same */
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

/* An access that others can see. */
struct access {
	u64 addr;
	u64 phys; /* offset in RAM; NEVER: there is none */
	u64 bytes;
	u64 flags; /* INSN_* */
};

/* Return what the kernel accesses for a call of a function that copies. */
static struct access copied(struct board *b, const struct look *l)
{
	const struct function *f = l->callee;
	bool writes = f->to != NO_ARGUMENT && !(f->how & HOW_READS);
	u64 addr = call_argument(b, writes ? f->to : f->source);
	u64 bytes = call_argument(b, f->size), page = 4096 - (addr & 4095);

	if (f->kind != FN_COPY || f->size == NO_ARGUMENT || !bytes)
		return (struct access){ .phys = NEVER };
	return (struct access){ .addr = addr,
				.phys = physical(b, addr),
				.bytes = bytes < page ? bytes : page,
				.flags = writes ? INSN_WRITES : INSN_READS };
}

static struct access access_of(struct board *b, const struct look *l)
{
	u64 flags = l->insn->flags;

	if (l->callee && flags & INSN_CALLS)
		return copied(b, l);
	if (!(flags & ACCESSES) || !l->bytes || flags & (INSN_ON_STACK | INSN_PER_CPU))
		return (struct access){ .phys = NEVER, .flags = flags };
	return (struct access){ l->addr, l->phys, l->bytes, flags };
}

/* Return the index of this processor's level: of a task, or of an interrupt in it. */
static u64 slot(struct board *b)
{
	u64 who = running_context(b);

	return b->current * NR_LEVELS + (who > 2 * MAX_CPUS ? 0 : who > MAX_CPUS ? 1 : 2);
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

/* Let a wait end, which is over as soon as nothing above it in the processor waits. */
static void release(struct board *b, u64 cpu, struct hold *h)
{
	if (b->held[cpu] == h->end)
		b->held[cpu] = 0;
	h->end = 0;
}

static u64 stack_at(u64 sp)
{
	return sp & ~(u64)(STACK_SIZE - 1);
}

/* Begin to follow a task behind a load that races. */
static void follow(struct board *b, u64 at, u64 sp, u64 flags)
{
	struct holds *s = holds(b);
	struct trail *t = &s->trails[s->nr_trails];

	if (flags & (INSN_WRITES | INSN_COMPARES | INSN_CALLS | INSN_INDIRECT) ||
	    !(flags & INSN_READS) || s->nr_trails == NR_TRAILS)
		return;
	for (u64 i = 0; i < s->nr_trails; i++)
		if (s->trails[i].at == at && s->trails[i].stack == stack_at(sp) &&
		    !s->trails[i].count)
			return;
	*t = (struct trail){ .at = at, .stack = stack_at(sp) };
	s->nr_trails++;
}

/* Note that a task has come to an instruction. */
static void step(struct board *b, u64 at, const struct insn *insn)
{
	struct holds *s = holds(b);
	u64 stack = stack_at(stack_pointer(b));
	bool calls = insn->flags & INSN_CALLS && insn->flags & INSN_INDIRECT;

	for (u64 i = 0; i < s->nr_trails; i++) {
		struct trail *t = &s->trails[i];

		if (t->stack != stack || t->count == NR_STEPS)
			continue;
		t->targets[t->count] =
			calls && insn->reg != REG_NONE ? register_value(b, insn->reg) : 0;
		t->steps[t->count++] = at;
	}
}

static void raced(struct board *b, const struct look *l, const struct access *a, u64 cpu,
		  struct hold *h)
{
	struct finding *f;

	h->raced = 1;
	follow(b, l->at, stack_pointer(b), a->flags);
	follow(b, h->at, h->sp, h->flags);
	f = text_report(b, FOUND_RACE, l->at, h->at);
	if (!f)
		return;
	f->a = a->flags;
	f->b = h->flags;
	f->c = cpu;
	holds(b)->parties[f - texts(b)->findings] = h->party;
}

/* Compare an access with those before which others wait. */
static void compare(struct board *b, const struct look *l, const struct access *a)
{
	struct holds *s = holds(b);
	u64 sp = stack_pointer(b);

	for (u64 i = 0; i < b->nr_cpus * NR_LEVELS; i++) {
		u64 cpu = i / NR_LEVELS;
		struct hold *h = &s->hold[i];

		if (!h->at || (h->at == l->at && h->sp == sp))
			continue;
		if (cpu == b->current)
			h->shared = 1;
		if (h->until && h->until == l->at)
			s->passes[slot(b)] = i + 1;
		if (a->phys != NEVER && h->phys != NEVER && a->phys + a->bytes > h->phys &&
		    h->phys + h->bytes > a->phys && conflict(h->flags, a->flags))
			raced(b, l, a, cpu, h);
	}
}

/* The wait is over: tell what has changed meanwhile, and tear an instruction in
 * two. */
static void end(struct board *b, struct hold *h)
{
	u64 value, at = h->at;
	struct finding *f;

	release(b, b->current, h);
	h->at = 0;
	if (h->phys == NEVER || h->bytes > 8)
		return;
	value = read_ram(b, h->phys, h->bytes);
	if (value == h->value || h->flags & INSN_LOCKED)
		return;
	/* many fields of the kernel's own objects change so, with a lock or without, rightly */
	if (!h->raced && is_module_address(b, h->addr) &&
	    (f = text_report(b, FOUND_CHANGED, at, 0))) {
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

static void go_on_waiting(struct board *b, struct look *l, const struct hold *h)
{
	b->held[b->current] = h->end;
	b->deaf[b->current] = !takes_interrupts(b);
	text_hold(b, l);
}

/* Have the processor wait before this instruction. */
static void wait(struct board *b, struct look *l, const struct access *a, struct order o)
{
	struct holds *s = holds(b);
	struct hold *h = &s->hold[slot(b)];

	*h = (struct hold){ .at = l->at,
			    .sp = stack_pointer(b),
			    .end = settle(b) + o.ns,
			    .addr = a->addr,
			    .phys = a->phys,
			    .bytes = a->bytes,
			    .until = o.until,
			    .then = o.then,
			    .flags = a->flags };
	if (a->phys != NEVER)
		h->value = read_ram(b, h->phys, h->bytes);
	note_party(b, &h->party);
	s->held++;
	note(s, l->at ^ b->current << 56 ^ o.ns << 20);
	go_on_waiting(b, l, h);
}

/* Note who accesses what, for the host to see what several do. */
static void touch(struct board *b, const struct look *l, const struct access *a)
{
	struct holds *s = holds(b);
	u64 who = running_context(b);

	for (u64 word = a->phys >> 3; word <= (a->phys + a->bytes - 1) >> 3; word++) {
		u64 hash = (l->at ^ word << 20 ^ who << 7) * 0x9e3779b97f4a7c15ull >> 40;

		for (int n = 0; n < 8; n++) {
			struct touch *t = &s->touches[(hash + n) & (NR_TOUCHES - 1)];

			if (!t->at)
				*t = (struct touch){ l->at, word, who, a->flags };
			if (t->at == l->at && t->word == word && t->context == who)
				break;
		}
	}
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

/*
 * Return for how long an access waits if each one does. Tasks that do the same go on almost in
 * step: so each access of one meets the one of the other and those beside it, as a load and the
 * store behind it. Where they come again they are further apart each time.
 */
static u64 each_wait(struct board *b, const struct look *l, const struct access *a)
{
	struct holds *s = holds(b);
	u8 *often = &s->places[(l->at * 0x9e3779b97f4a7c15ull >> 40) & (NR_PLACES - 1)];

	if (!s->each_ns || a->phys == NEVER || *often >= MOST_HELD)
		return 0;
	return s->each_ns * IN_STEP / (IN_STEP + b->current * (1 + (*often)++ % IN_STEP));
}

/* The one before was what another task waits for: let that go on. Return ns to wait in turn. */
static u64 passed(struct board *b)
{
	u64 *number = &holds(b)->passes[slot(b)];
	struct hold *h = &holds(b)->hold[*number - 1];

	if (!*number)
		return 0;
	release(b, (*number - 1) / NR_LEVELS, h);
	*number = 0;
	return h->then;
}

/* Return what is to be done before an access that comes for the first time. */
static struct order ordered(struct board *b, const struct look *l, const struct access *a)
{
	struct holds *s = holds(b);
	struct order o = { .ns = passed(b) };
	const struct order *order;

	compare(b, l, a);
	order = find_order(s, l);
	if (order)
		return *order;
	if (!o.ns)
		o.ns = each_wait(b, l, a);
	return o;
}

bool look_hold(struct board *b, struct look *l)
{
	struct holds *s = holds(b);
	struct hold *h;
	struct access a;
	struct order o;

	if (s && !l->again)
		step(b, l->at, l->insn);
	if (!s || !(l->insn->flags & (ACCESSES | INSN_CALLS)) || l->insn->flags & INSN_ON_STACK)
		return false;
	a = access_of(b, l);
	h = &s->hold[slot(b)];
	if (l->again && h->at == l->at && h->sp == stack_pointer(b)) {
		if (h->end > settle(b)) {
			/* it was there for an interrupt */
			go_on_waiting(b, l, h);
			return true;
		}
		end(b, h);
		compare(b, l, &a);
		return false;
	}
	s->accesses++;
	if (s->touching && a.phys != NEVER)
		touch(b, l, &a);
	o = ordered(b, l, &a);
	if (h->at && h->end + STALE > settle(b))
		return false; /* another task, while the one before waits */
	if (o.timer)
		let_timer_come(b);
	if (o.ns)
		wait(b, l, &a, o);
	return o.ns;
}

/* Clear what a function that fails should have written. */
static void clear_result(struct board *b, const struct function *f)
{
	u64 to = call_argument(b, f->to), size = (u32)call_argument(b, f->size);

	for (u64 i = 0; i < size && i < MAX_CLEARED; i++) {
		u64 at = physical(b, to + i);

		if (at < b->ram_size)
			((u8 *)(uintptr_t)b->ram)[at] = 0;
	}
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
	if (l->callee->how & HOW_CLEARS)
		clear_result(b, l->callee);
	text_skip(b, l,
		  l->callee->fails_as == NO_ARGUMENT ? (u64)l->callee->error :
						       argument(b, l->callee->fails_as));
	return true;
}
