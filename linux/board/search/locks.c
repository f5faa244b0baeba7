// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The order of locks, and calls that sleep where nobody may.
 *
 * A lock that is taken while another one is held gives an order of two locks. If these orders lead in
 * a circle, a deadlock can come about, whether it does in this run or not. A lock that an interrupt's
 * handler takes, and that is elsewhere taken while interrupts come, is the same with one lock.
 *
 * Only checked text is looked at, and the kernel may release a lock for it. So before a lock counts as
 * held it is looked at: a mutex has its owner's address in it.
 */
#include "locks.h"
#include "looks.h"

#define NO_SOFT_IRQ 0xff00u
#define NEED_RESCHED 0x80000000u
#define MUTEX_FLAGS 7ull
#define MAY_SLEEP 0x400 /* a flag of allocations: __GFP_DIRECT_RECLAIM */
#define FREED_SIZE 8192 /* bytes of an object that is freed, at most */

static struct locks *locks(const struct board *b)
{
	return (struct locks *)(uintptr_t)texts(b)->locks;
}

static bool is_held(struct board *b, const struct taken *t)
{
	u64 word = read_word(b, t->lock);

	if (t->how & HOW_MUTEX)
		return (word & ~MUTEX_FLAGS) == t->context;
	if (t->how & HOW_SPIN)
		return word & 0xff;
	return word & 0xffffffff;
}

static bool is_spinning(const struct taken *t)
{
	return t->how & (HOW_SPIN | HOW_RWLOCK);
}

/* Return the lock of this context at a place of the table, or NULL. */
static struct taken *held(struct board *b, int number, u64 who)
{
	struct taken *t = &locks(b)->taken[number];

	if (t->context != who)
		return NULL;
	if (is_held(b, t))
		return t;
	t->context = 0;
	return NULL;
}

static bool is_outer(const struct lock_order *o, u64 lock)
{
	for (int i = 0; i < NR_OUTER; i++)
		if (o->outer[i] == lock)
			return true;
	return false;
}

/* Return whether two orders were always made under one lock, so that they cannot meet. */
static bool are_apart(const struct lock_order *a, const struct lock_order *b)
{
	for (int i = 0; i < NR_OUTER; i++)
		if (a->outer[i] && is_outer(b, a->outer[i]))
			return true;
	return false;
}

/* Follow orders from the last of a path to a lock; return the length of the circle, 0 for none. */
static int circle(const struct locks *s, u64 goal, u64 *path, int length)
{
	const struct lock_order *last = &s->orders[path[length - 1]];

	if (last->wanted == goal)
		return length;
	if (length == LONGEST_CYCLE)
		return 0;
	for (u64 n = 0; n < s->nr_orders; n++) {
		bool apart = s->orders[n].held != last->wanted || s->orders[n].gone;
		int found;

		for (int i = 0; i < length && !apart; i++)
			apart = are_apart(&s->orders[n], &s->orders[path[i]]);
		if (apart)
			continue;
		path[length] = n;
		found = circle(s, goal, path, length + 1);
		if (found)
			return found;
	}
	return 0;
}

static void report_order(struct board *b, u64 number)
{
	const struct locks *s = locks(b);
	u64 path[LONGEST_CYCLE] = { number };
	int length = circle(s, s->orders[number].held, path, 1);
	struct finding *f;

	if (!length)
		return;
	f = text_report(b, FOUND_LOCK_ORDER, s->orders[number].wanted_at,
			s->orders[path[1]].wanted_at);
	if (!f)
		return;
	f->a = length;
	for (int i = 0; i < length; i++)
		f->b |= path[i] << 16 * i;
}

/* One lock was taken under another one. outer: the locks that were held before. */
static void ordered(struct board *b, const struct taken *first, u64 lock, u64 at, const u64 *outer)
{
	struct locks *s = locks(b);
	struct lock_order *o;

	for (u64 n = 0; n < s->nr_orders; n++) {
		o = &s->orders[n];
		if (o->held != first->lock || o->wanted != lock || o->gone)
			continue;
		for (int i = 0; i < NR_OUTER; i++) {
			bool still = false;

			for (int k = 0; k < NR_OUTER; k++)
				still |= o->outer[i] == outer[k];
			if (still)
				continue;
			o->outer[i] = 0;
			report_order(b, n);
		}
		return;
	}
	if (s->nr_orders == NR_ORDERS)
		return;
	o = &s->orders[s->nr_orders++];
	*o = (struct lock_order){
		.held = first->lock, .wanted = lock, .held_at = first->at, .wanted_at = at
	};
	__builtin_memcpy(o->outer, outer, sizeof(o->outer));
	keep_task(b, &o->pid, o->comm);
	keep_stack(b, stack_pointer(b), o->stack, LOCK_STACK);
	report_order(b, s->nr_orders - 1);
}

/* Note how a lock was taken, and whether an interrupt may wait for what it has interrupted. */
static void used(struct board *b, const struct function *f, u64 lock, u64 at)
{
	static const struct {
		u64 inside, outside;
	} pairs[] = { { TAKEN_IN_IRQ, TAKEN_WITH_IRQ }, { TAKEN_IN_BH, TAKEN_WITH_BH } };
	struct locks *s = locks(b);
	u32 count = preempt_count(b);
	bool irq_off = is_without_interrupts(b) || f->how & HOW_IRQ || count & HARD_IRQ;
	u64 ways = 0;
	struct used *u;
	u64 n;

	if (!(f->how & (HOW_SPIN | HOW_RWLOCK)))
		return;
	if (count & HARD_IRQ)
		ways |= TAKEN_IN_IRQ;
	else if (count & IN_SOFT_IRQ)
		ways |= TAKEN_IN_BH;
	if (!irq_off)
		ways |= TAKEN_WITH_IRQ;
	if (!irq_off && !(f->how & HOW_BH) && !(count & NO_SOFT_IRQ))
		ways |= TAKEN_WITH_BH;
	for (n = 0; n < s->nr_used && s->used[n].lock != lock; n++)
		;
	if (n == NR_USED)
		return;
	if (n == s->nr_used)
		s->used[s->nr_used++] = (struct used){ .lock = lock };
	u = &s->used[n];
	for (int i = 0; i < 4; i++)
		if (ways >> i & 1 && !(u->ways >> i & 1))
			u->at[i] = at;
	u->ways |= ways;
	if (!(f->how & HOW_SHARED))
		u->exclusive |= ways;
	for (int i = 0; i < 2; i++) {
		u64 both = pairs[i].inside | pairs[i].outside;
		struct finding *found;

		if ((u->ways & both) != both || !(u->exclusive & both) || !(ways & both))
			continue;
		found = text_report(b, FOUND_LOCK_IN_IRQ, u->at[i], u->at[i + 2]);
		if (found)
			found->a = i;
	}
}

/* A lock is taken. tried: without waiting, so that nothing can wait for it in a circle. */
static void taken(struct board *b, const struct function *f, u64 lock, u64 at, bool tried)
{
	struct locks *s = locks(b);
	u64 who = running_context(b), outer[NR_OUTER] = { 0 };
	struct taken *unused = NULL, *t;
	int count = 0;

	used(b, f, lock, at);
	for (int i = 0; i < NR_TAKEN; i++) {
		t = held(b, i, who);
		if (t && t->lock == lock)
			return;
		if (t && !(t->how & HOW_SHARED) && count < NR_OUTER)
			outer[count++] = t->lock;
		if (!s->taken[i].context)
			unused = &s->taken[i];
	}
	for (int i = 0; i < NR_TAKEN && !tried; i++) {
		u64 others[NR_OUTER];

		t = held(b, i, who);
		if (!t)
			continue;
		for (int k = 0; k < NR_OUTER; k++)
			others[k] = outer[k] == t->lock ? 0 : outer[k];
		ordered(b, t, lock, at, others);
	}
	if (unused)
		*unused = (struct taken){ who, lock, at, f->how };
}

static void released(struct board *b, u64 lock)
{
	for (int i = 0; i < NR_TAKEN; i++)
		if (locks(b)->taken[i].lock == lock)
			locks(b)->taken[i].context = 0;
}

/* A call that may sleep: report it if preemption or interrupts are off. */
static void sleeps(struct board *b, const struct look *l)
{
	u64 who = running_context(b);
	u32 count = preempt_count(b) & ~NEED_RESCHED;
	const struct taken *spinning = NULL, *t;
	struct finding *f;

	for (int i = 0; i < NR_TAKEN; i++)
		if ((t = held(b, i, who)) && is_spinning(t))
			spinning = t;
	if (!count && !is_without_interrupts(b) && !spinning)
		return;
	f = text_report(b, FOUND_SLEEP, l->at, 0);
	if (!f)
		return;
	f->a = l->callee - texts(b)->functions;
	f->b = count;
	f->c = spinning ? spinning->at : 0;
}

/* Some kernels have the release of a spinlock in line: return whether this may be one. */
static bool may_unlock(const struct insn *i)
{
	return i->bytes == 1 && i->flags & INSN_WRITES && !(i->flags & INSN_ON_STACK);
}

/* Return whether an instruction may take or release a spinlock in line. */
bool is_lock_in_line(const struct insn *i)
{
	return i->more & MORE_TAKES || may_unlock(i);
}

static void look_in_line(struct board *b, const struct look *l)
{
	static const struct function spinlock = { .how = HOW_SPIN };

	if (may_unlock(l->insn))
		released(b, l->addr);
	else if (!(l->insn->more & MORE_TAKES))
		;
	else if ((u32)read_word(b, l->addr))
		locks(b)->attempts[b->current] = (struct attempt){ l->addr, l->at };
	else
		taken(b, &spinlock, l->addr, l->at, false);
}

/* Return where a lock is taken: a function that waits for it is called behind an attempt in line. */
static u64 taken_at(struct board *b, const struct look *l, u64 lock)
{
	const struct attempt *last = &locks(b)->attempts[b->current];

	return l->callee->how & HOW_INLINE && last->lock == lock ? last->at : l->at;
}

bool look_at_locks(struct board *b, struct look *l)
{
	const struct function *f = l->callee;
	struct behind *call;

	if (l->bytes)
		look_in_line(b, l);
	if (!f)
		return false;
	switch (f->kind) {
	case FN_SLEEPS: sleeps(b, l); break;
	case FN_UNLOCK: released(b, call_argument(b, f->to)); break;
	case FN_ALLOC:
		if (f->flags != NO_ARGUMENT && call_argument(b, f->flags) & MAY_SLEEP)
			sleeps(b, l);
		break;
	case FN_LOCK:
		if (f->how & (HOW_MUTEX | HOW_RWSEM) && !(f->how & HOW_TRIES))
			sleeps(b, l);
		call = text_behind(b, l);
		call->data[0] = call_argument(b, f->to);
		if (!(f->how & HOW_TRIES))
			taken(b, f, call->data[0], taken_at(b, l, call->data[0]), false);
		break;
	}
	return false;
}

/* A lock function has returned: by now the lock is taken, or not. */
void behind_locks(struct board *b, const struct behind *call)
{
	const struct function *f = &texts(b)->functions[call->function];
	u32 value = result(b);

	if (f->how & HOW_TRIES && value)
		taken(b, f, call->data[0], call->from, true);
	else if (f->how & HOW_FAILS && value)
		released(b, call->data[0]);
}

/* Memory is freed, and what was a lock there is one no more. size: 0: that of any object. */
void forget_locks(struct board *b, u64 first, u64 size)
{
	struct locks *s = locks(b);

	size = size ? size : FREED_SIZE;
	for (u64 n = 0; n < s->nr_orders; n++)
		if (s->orders[n].held - first < size || s->orders[n].wanted - first < size)
			s->orders[n].gone = 1;
	for (u64 n = 0; n < s->nr_used; n++)
		if (s->used[n].lock - first < size)
			s->used[n] = s->used[--s->nr_used];
	for (int i = 0; i < NR_TAKEN; i++)
		if (s->taken[i].lock - first < size)
			s->taken[i].context = 0;
}

__attribute__((visibility("default"))) void board_forget_locks(struct board *b, u64 first, u64 size)
{
	forget_locks(b, first, size);
}
