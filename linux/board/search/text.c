// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Look at the instructions of some text: see text.h.
 *
 * A hook of libunicorn is bounded to the text. It is called for each instruction, through a function
 * of emulator/blocks.c, which takes the call out of the translated code again where this one says
 * that there is nothing to look at. So only what accesses memory or calls costs something.
 *
 * A looker that wants an instruction left has the board stop before it. The processor comes back to
 * it later, perhaps after interrupts whose handlers are such text, too: so it is known by processor,
 * address and stack pointer which looker has left it, and that one goes on. A debugger may stop at
 * the same instruction, and then its hooks are called once more in the same block: the lookers are
 * not, but whatever they wanted is asked for again.
 */
#include "looks.h"

#define API __attribute__((visibility("default")))

static looker *const lookers[] = { look_hold, look_fault, look_at_memory, look_at_locks };
static behind_looker *const behind_lookers[] = { NULL, NULL, behind_memory, behind_locks };

static struct text *find_text(struct texts *t, u64 addr)
{
	struct text *text = &t->texts[t->last];

	if (addr - text->first < text->size)
		return text;
	for (u64 i = 0; i < t->nr_texts; i++) {
		text = &t->texts[i];
		if (addr - text->first < text->size) {
			t->last = i;
			return text;
		}
	}
	return NULL;
}

/* Return whether an address is in text that is looked at. */
bool in_texts(struct board *b, u64 addr)
{
	return find_text(texts(b), addr) != NULL;
}

static struct insn *rows(const struct text *text)
{
	return (struct insn *)(uintptr_t)text->insns;
}

/* Return the index of the function that begins at an address, or 0. They are sorted from 1 on. */
static u64 find_function(const struct texts *t, u64 addr)
{
	u64 low = 1, high = t->nr_functions;

	while (low < high) {
		u64 middle = (low + high) / 2;

		if (t->functions[middle].address < addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low < t->nr_functions && t->functions[low].address == addr ? low : 0;
}

/* Decode the instruction at an address. left: bytes of text from there. */
void decode_at(struct board *b, u64 addr, u64 left, struct insn *i)
{
	u64 at = board_walk(b, addr);
	u8 code[16];

	if (left > sizeof(code))
		left = sizeof(code);
	for (u64 k = 0; k < left; k++) {
		if (!((addr + k) & 4095))
			at = board_walk(b, addr + k) - k;
		if (at + k >= b->ram_size)
			return;
		code[k] = ((u8 *)(uintptr_t)b->ram)[at + k];
	}
	board_decode(code, left, i);
	if (i->flags & (INSN_CALLS | INSN_TAIL) && !(i->flags & INSN_INDIRECT)) {
		i->function = find_function(texts(b), addr + i->size + i->disp);
		if (i->flags & INSN_TAIL)
			i->flags = i->function ? i->flags | INSN_CALLS : i->flags & ~INSN_TAIL;
	}
}

/* Make the row of the instruction at an address. */
static struct insn *make_row(struct board *b, struct text *text, u64 addr)
{
	struct insn *i = &rows(text)[addr - text->first];
	u64 left = text->first + text->size - addr;
	u16 kept = i->flags & (INSN_BEHIND | INSN_SEEN), more = i->more;

	decode_at(b, addr, left, i);
	i->flags |= kept;
	i->more |= more;
	if (i->function && !(i->flags & INSN_TAIL) && i->size < left)
		i[i->size].flags |= INSN_BEHIND;
	return i;
}

#define NR_BEFORE 4    /* instructions that are looked back at */
#define NEAR_CANARY 40 /* bytes of code between the load of a canary and its store */

struct before {
	struct insn *insns[NR_BEFORE]; /* the last one first */
	u64 canary;                    /* address of the last load of the canary */
	u64 known;                     /* of registers: see follow_registers() */
};

static bool is_slot(const struct insn *i)
{
	return i->bytes == 8 && i->index == REG_NONE && is_stack_register(i->base);
}

/* Something depends on a register: the load that has filled it, if it is near, decides. */
static void depends(struct before *before, u8 reg)
{
	for (int k = 0; k < NR_BEFORE && before->insns[k]; k++) {
		struct insn *i = before->insns[k];
		bool stores = (i->flags & (INSN_READS | INSN_WRITES)) == INSN_WRITES;

		if (i->more & MORE_LOADS && i->reg == reg) {
			i->more |= MORE_DECIDES;
			return;
		}
		if (!(i->more & MORE_LOADS) && (!stores || i->flags & INSN_STRING))
			return;
	}
}

/* Say of an instruction, and of those before it, what can be told of several together. */
static void look_back(const struct texts *t, struct before *before, struct insn *i, u64 addr)
{
	follow_registers(&before->known, i);
	if (reads_canary(t, i, addr)) {
		i->more |= MORE_CANARY;
		if (!(i->flags & INSN_COMPARES))
			before->canary = addr;
		for (int k = 0; k < NR_BEFORE && before->insns[k]; k++)
			if ((i->flags & INSN_COMPARES || compares_in_registers) &&
			    is_slot(before->insns[k]))
				before->insns[k]->more |= MORE_CANARY;
	} else if (is_slot(i) && (i->flags & INSN_WRITES || compares_in_registers) &&
		   addr - before->canary < NEAR_CANARY) {
		i->more |= MORE_CANARY;
	}
	if (i->more & MORE_TESTS) {
		depends(before, i->reg);
		depends(before, i->scale);
	}
	if (i->flags & (INSN_READS | INSN_WRITES)) {
		depends(before, i->base);
		depends(before, i->index);
	}
	for (int k = NR_BEFORE - 1; k; k--)
		before->insns[k] = before->insns[k - 1];
	before->insns[0] = i;
}

/* A function that calls what waits for a spinlock has tried to take it before, in line. */
static void look_for_locks(struct board *b, struct insn *all, u64 size)
{
	const struct texts *t = texts(b);
	u64 waits = 0;

	for (u64 k = 0; k < size; k++)
		waits += all[k].function && t->functions[all[k].function].how & HOW_INLINE;
	for (u64 k = 0; k < size && waits; k++)
		if (all[k].more & MORE_ACQUIRES && all[k].bytes == 4)
			all[k].more |= MORE_TAKES;
}

/* Make the rows of [first, first + size) in a text, which is one function after the other. */
API void board_make_rows(struct board *b, u64 number, u64 first, u64 size)
{
	struct text *text = &texts(b)->texts[number];
	struct before before = { .canary = first - NEAR_CANARY };

	for (u64 addr = first; addr < first + size;) {
		struct insn *i = make_row(b, text, addr);

		look_back(texts(b), &before, i, addr);
		addr += i->size ? i->size : 1;
	}
	look_for_locks(b, &rows(text)[first - text->first], size);
}

/* Return whether an instruction of [first, first + size) leaves that function. */
static bool goes(const struct insn *i, u64 addr, u64 first, u64 size)
{
	if (i->more & MORE_JUMPS)
		return addr + i->size + i->disp - first >= size;
	return i->flags & INSN_LEAVES || (i->flags & INSN_INDIRECT && !(i->flags & INSN_CALLS));
}

/* Look where a function with variables on the stack begins and ends. Its rows are made. */
API void board_watch_frame(struct board *b, u64 first, u64 size)
{
	struct text *text = find_text(texts(b), first);

	for (u64 addr = first; text && addr < first + size;) {
		struct insn *i = &rows(text)[addr - text->first];
		bool stores = i->flags & INSN_WRITES;

		if (addr == first)
			i->more |= MORE_BEGINS;
		else if (goes(i, addr, first, size))
			i->more |= MORE_ENDS;
		else if (i->flags & INSN_ON_STACK && (stores || i->more & MORE_DECIDES))
			i->more |= MORE_LOCAL;
		if (i->more & (MORE_BEGINS | MORE_ENDS))
			i->flags |= INSN_BEHIND;
		addr += i->size ? i->size : 1;
	}
}

/* ---- what lookers ask for */
static void leave(struct board *b, u64 why, u64 at)
{
	texts(b)->memo_stop = why;
	stop_before(b, why, at);
}

static void remember(struct board *b, const struct look *l)
{
	struct left *places = texts(b)->left[b->current], *to = &places[0];

	for (int i = 0; i < NR_LEFT; i++) {
		if (places[i].looker && places[i].at == l->at && places[i].sp == stack_pointer(b)) {
			to = &places[i];
			break;
		}
		if (!places[i].looker)
			to = &places[i];
	}
	*to = (struct left){ l->at, stack_pointer(b), l->looker + 1 };
}

/* Have other processors run, as long as this one cannot, and come back. */
void text_hold(struct board *b, struct look *l)
{
	remember(b, l);
	leave(b, STOP_NEXT, l->at);
}

static void act(struct board *b, struct look *l, u64 value, u64 ip, u64 sp)
{
	struct texts *t = texts(b);

	t->act_value = value;
	t->act_ip = ip;
	t->act_sp = sp;
	leave(b, STOP_ACT, l->at);
}

/* Leave the call out; it returns a value. */
void text_skip(struct board *b, struct look *l, u64 value)
{
	act(b, l, value, l->back, l->sp);
}

/* Call another function in place of this one, with the registers as they are now. */
void text_redirect(struct board *b, struct look *l, u64 function)
{
	act(b, l, NEVER, function, enter_call(b, l->sp, l->back));
}

/* Have another function called first, where one begins. It returns to there. */
void text_call(struct board *b, struct look *l, u64 function)
{
	act(b, l, NEVER, function, enter_call(b, stack_pointer(b), l->at));
}

/* Return an address's offset in RAM, or NEVER. */
u64 physical(struct board *b, u64 addr)
{
	u64 at = addr - texts(b)->direct;

	return texts(b)->direct && at < b->ram_size ? at : board_walk(b, addr);
}

/* Return what the host calls the text at an address, 0 if there is none. */
u64 text_owner(struct board *b, u64 addr)
{
	const struct text *text = find_text(texts(b), addr);

	return text ? text->owner : 0;
}

/* Have the looker's function for that called when this call has returned. */
struct behind *text_behind(struct board *b, struct look *l)
{
	struct behind *all = texts(b)->behind, *to = &all[0];

	for (int i = 0; i < NR_BEHIND; i++) {
		if (!all[i].at || (all[i].sp == l->sp && all[i].at == l->back)) {
			to = &all[i];
			break;
		}
	}
	*to = (struct behind){ .at = l->back,
			       .sp = l->sp,
			       .looker = l->looker,
			       .function = l->callee - texts(b)->functions,
			       .from = l->at };
	return to;
}

/* Called between two runs, where the board has stopped with STOP_ACT. */
static void act_now(struct board *b)
{
	const struct texts *t = texts(b);

	set_call(b, t->act_ip, t->act_sp, t->act_value);
}

/* Return what holds locks here: the task, or the interrupt that has interrupted it. */
u64 running_context(struct board *b)
{
	u32 count = preempt_count(b);

	if (count & HARD_IRQ)
		return b->current + 1;
	if (count & IN_SOFT_IRQ)
		return MAX_CPUS + b->current + 1;
	return running_task(b);
}

/* Say which task runs, and return its address. */
u64 keep_task(struct board *b, u64 *pid, u64 comm[2])
{
	u64 task = running_task(b);

	*pid = (u32)read_word(b, task + texts(b)->pid);
	for (int i = 0; i < 2; i++)
		comm[i] = read_word(b, task + texts(b)->comm + 8 * i);
	return task;
}

/* There is no room for a finding: keep what it is and where, for the host to count it. */
static void count_finding(struct board *b, u64 kind, u64 at, u64 other)
{
	struct texts *t = texts(b);
	u64 hash = (kind ^ at << 8 ^ other << 32) * 0x9e3779b97f4a7c15ull >> 40;

	for (u64 n = 0; n < NR_COUNTED / 64; n++) {
		struct counted *c = &t->counted[(hash + n) % NR_COUNTED];

		if (!c->kind)
			*c = (struct counted){ kind, at, other, begun(b) };
		if (c->kind == kind && c->at == at && c->other == other)
			return;
	}
	t->findings_lost++;
}

/* Keep a finding, or count it if it is known. Return it; NULL: there are too many. */
struct finding *text_report(struct board *b, u64 kind, u64 at, u64 other)
{
	struct texts *t = texts(b);
	struct finding *f;
	u64 sp = stack_pointer(b);

	for (u64 i = 0; i < t->nr_findings; i++) {
		f = &t->findings[i];
		if (f->kind == kind && f->at == at && f->other == other) {
			f->count++;
			return NULL;
		}
	}
	if (t->nr_findings == NR_FINDINGS) {
		count_finding(b, kind, at, other);
		return NULL;
	}
	f = &t->findings[t->nr_findings++];
	*f = (struct finding){ .kind = kind,
			       .at = at,
			       .other = other,
			       .count = 1,
			       .cpu = b->current,
			       .block = begun(b),
			       .now = settle(b) };
	f->task = keep_task(b, &f->pid, f->comm);
	keep_stack(b, sp, f->stack, FINDING_STACK);
	return f;
}

/* ---- the hook */
/* Return whether this instruction of this block was looked at: a debugger has stopped there. */
static bool looked_at(struct board *b, u64 addr)
{
	struct texts *t = texts(b);

	if (t->memo_at == addr && t->memo_block == begun(b) && t->memo_cpu == b->current) {
		if (t->memo_stop)
			leave(b, t->memo_stop, addr);
		return true;
	}
	t->memo_at = addr;
	t->memo_block = begun(b);
	t->memo_cpu = b->current;
	t->memo_stop = 0;
	return false;
}

static void look_behind(struct board *b, u64 addr)
{
	struct behind *all = texts(b)->behind;
	u64 sp = stack_pointer(b);

	for (int i = 0; i < NR_BEHIND; i++) {
		struct behind call = all[i];

		if (call.at != addr || call.sp != sp)
			continue;
		all[i].at = 0;
		behind_lookers[call.looker](b, &call);
	}
}

/* Return the number of the looker that has left this instruction, or -1. */
static int who_left(struct board *b, u64 addr)
{
	struct left *places = texts(b)->left[b->current];

	for (int i = 0; i < NR_LEFT; i++) {
		if (places[i].looker && places[i].at == addr && places[i].sp == stack_pointer(b)) {
			int looker = places[i].looker - 1;

			places[i].looker = 0;
			return looker;
		}
	}
	return -1;
}

/* Called where a function begins that is looked at whoever calls it. */
static void look_at_entry(struct board *b, u64 addr)
{
	struct texts *t = texts(b);
	struct look l = { .at = addr, .phys = NEVER };
	u64 number = find_function(t, addr);
	struct back back;

	if (!number || !t->functions[number].entry_kind || looked_at(b, addr))
		return;
	l.callee = &t->functions[number];
	back = returns_to(b);
	l.back = back.at;
	l.sp = back.sp;
	if (t->on & LOOK_LOCKS && l.callee->entry_kind == FN_FREE)
		forget_locks(b, call_argument(b, l.callee->to), 0);
	if (t->on & LOOK_MEMORY)
		enter_memory(b, &l);
}

/*
 * An instruction that calls nothing, where only checks are on: it need not be left, and may be
 * looked at twice. Return whether it has to be looked at each time.
 */
static bool look_at_access(struct board *b, struct insn *i, u64 addr)
{
	u64 on = texts(b)->on;
	struct look l = { .insn = i, .at = addr, .phys = NEVER };
	bool locks = on & LOOK_LOCKS && is_lock_in_line(i), again = locks;

	if (on & LOOK_MEMORY && may_be_wrong(i)) {
		look_up(b, &l);
		check_access(b, &l);
		again |= !is_constant(i);
	}
	if (locks) {
		look_up(b, &l);
		look_at_locks(b, &l);
	}
	return again;
}

static void look_at_frame(struct board *b, const struct insn *i, u64 addr)
{
	if (i->more & MORE_BEGINS)
		frame_begins(b, addr);
	else
		frame_ends(b);
}

/* Called by libunicorn for each instruction of a text. False: it need not be for this one. */
static bool on_code(void *board, u64 addr, u32 size)
{
	struct board *b = board;
	struct texts *t = texts(b);
	struct text *text;
	struct insn *i;
	struct look l;
	int first;

	text = find_text(t, addr);
	if (!text) {
		if (t->on)
			look_at_entry(b, addr);
		return true;
	}
	i = &rows(text)[addr - text->first];
	if (i->size != size)
		i = make_row(b, text, addr);
	if (!(i->flags & INSN_HOOKED))
		return false;
	if (!t->on)
		return true;
	t->instructions++;
	if (!(i->flags & INSN_SEEN))
		i->flags |= INSN_SEEN;
	if (!(t->on & (LOOK_HOLD | LOOK_FAULT)) && !i->function && !(i->flags & INSN_BEHIND))
		return look_at_access(b, i, addr);
	if (looked_at(b, addr))
		return true;
	if (i->flags & INSN_BEHIND)
		look_behind(b, addr);
	if (i->more & (MORE_BEGINS | MORE_ENDS) && t->on & LOOK_MEMORY)
		look_at_frame(b, i, addr);
	if (!(i->flags & (INSN_HOOKED & ~INSN_BEHIND)))
		return true;
	l = (struct look){ .insn = i, .at = addr, .phys = NEVER };
	look_up(b, &l);
	if (l.bytes)
		l.phys = physical(b, l.addr);
	if (i->function)
		l.callee = &t->functions[i->function];
	first = who_left(b, addr);
	if (first < 0 && l.callee)
		l.callee->calls++;
	for (int n = first < 0 ? 0 : first; n < (int)(sizeof(lookers) / sizeof(*lookers)); n++) {
		if (!(t->on >> n & 1) || !lookers[n])
			continue;
		l.looker = n;
		l.again = n == first;
		if (lookers[n](b, &l))
			return true;
	}
	return true;
}

static void on_nothing(uc_engine u, u64 addr, u32 size, void *data)
{
	(void)u, (void)addr, (void)size, (void)data;
}

static bool add_hook(struct board *b, u64 first, u64 last)
{
	size_t hook;

	return !uc.hook_add(engine(b), &hook, UC_HOOK_CODE, (void *)on_nothing, b, first, last);
}

/* Begin to look. t: its memory, which the host has made and keeps. */
API bool board_look(struct board *b, struct texts *t)
{
	t->act = act_now;
	b->texts = (uintptr_t)t;
	if (b->counter.at_code)
		return true;
	b->counter.at_code = on_code;
	/* an only hook would be called by another way */
	return add_hook(b, NEVER, NEVER) && add_hook(b, NEVER, NEVER);
}

/* Hook [first, last]: a text, or where a function begins. All code has to be dropped for it. */
API bool board_hook_code(struct board *b, u64 first, u64 last)
{
	return add_hook(b, first, last);
}
