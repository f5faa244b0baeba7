// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Find memory errors of checked text, on a kernel that was built without any help for that.
 *
 * Each 8 bytes of RAM have a byte, as KASAN has them, which says what checked text may access. The
 * objects are those that this text allocates. A call of kmalloc() gets more than it asks for, and
 * the object begins and ends within that, so that there is a red zone on both sides. Whoever frees it
 * gives its address to kfree() or its like, which are looked at where they begin: an object of ours is
 * *kept*, which means that the call is left out, until others have taken its place. So nobody else
 * gets memory that a stray pointer leads to. When too much is kept, the call frees the oldest one.
 *
 * Pages come in twice the number that was asked for, and those behind are *spare*: a red zone. They
 * are freed together. Whoever counts references frees the first one by itself, so that the spare one is
 * freed before.
 *
 * Only what checked text accesses, and what it has the kernel's functions of memory and strings
 * access, is looked at. Nothing is said of memory that others have allocated.
 */
#include "shadow.h"
#include "looks.h"

#define PAGE 4096ull
#define MAX_ENLARGED (256ull << 10) /* larger ones are left as they are */
#define LEFT_IN_CACHE 64           /* bytes before an object of a cache */
#define GFP_ZERO 0x100
#define GFP_NO_SPARE 0x440008 /* __GFP_COMP, __GFP_ACCOUNT, __GFP_MOVABLE */
#define KERNEL_HALF 0xffff000000000000ull
#define ERRORS ((u64)-4096) /* addresses from here on are error numbers */
#define ZERO_SIZE 16        /* the address of an object of no bytes */
#define MAX_STRING 65536
#define MAX_CHECKED (1ull << 24)

struct shadow *shadow(const struct board *b)
{
	return (struct shadow *)(uintptr_t)texts(b)->shadow;
}

/* ---- the bytes */
/* Return the byte of an address, NULL if there is no memory. */
static u8 *byte_of(struct board *b, u64 addr)
{
	u64 at = physical(b, addr);

	return at < b->ram_size ? (u8 *)(uintptr_t)shadow(b)->bytes + (at >> 3) : NULL;
}

static u8 *byte_in_ram(struct board *b, u64 addr)
{
	u64 at = physical(b, addr);

	return at < b->ram_size ? (u8 *)(uintptr_t)b->ram + at : NULL;
}

/* Set the bytes of [addr, addr + size); addr is a multiple of 8. */
static void mark(struct board *b, u64 addr, u64 size, u8 value)
{
	while (size) {
		u64 count = PAGE - addr % PAGE;
		u8 *bytes = byte_of(b, addr);

		if (count > size)
			count = size;
		if (bytes)
			__builtin_memset(bytes, value, (count + 7) / 8);
		addr += count;
		size -= count;
	}
}

/* An object may be accessed, and what belongs to it on both sides may not. */
static void mark_object(struct board *b, const struct object *o)
{
	u64 whole = o->size & ~7ull, end = o->addr + whole;
	u8 *last;

	mark(b, o->begin, o->addr - o->begin, SHADOW_RED);
	mark(b, o->addr, whole, 8);
	if (o->size & 7) {
		last = byte_of(b, end);
		if (last)
			*last = o->size & 7;
		end += 8;
	}
	if (o->end > end)
		mark(b, end, o->end - end, SHADOW_RED);
}

static bool is_bad(u8 value, u64 last)
{
	return value > 8 || (value && last >= value);
}

/* Return the first byte of [addr, addr + size) that may not be accessed, or 0. */
static u64 first_bad(struct board *b, u64 addr, u64 size, u8 *value)
{
	u64 end = addr + size;
	u8 *byte = NULL;

	for (u64 at = addr; at < end; at = (at | 7) + 1, byte++) {
		u64 last = end - (at & ~7ull) < 8 ? end - 1 - (at & ~7ull) : 7;

		if (at == addr || !(at & (PAGE - 1)))
			byte = byte_of(b, at);
		if (!byte)
			return 0;
		if (is_bad(*byte, last)) {
			*value = *byte;
			return *byte > 8 || (at & 7) >= *byte ? at : (at & ~7ull) + *byte;
		}
	}
	return 0;
}

/* Return whether none of [addr, addr + size) is bad, as hardly any is. value: of the first byte. */
static bool is_fine(struct board *b, u64 addr, u64 size, u8 *value)
{
	u64 at = physical(b, addr), in = (addr & 7) + size;
	const u8 *bytes = (u8 *)(uintptr_t)shadow(b)->bytes + (at >> 3);

	*value = 0;
	if (at >= b->ram_size)
		return (addr & (PAGE - 1)) + size <= PAGE;
	if (in > 64 || (addr & (PAGE - 1)) + size > PAGE)
		return false;
	*value = *bytes;
	for (; in > 8; in -= 8, bytes++)
		if (*bytes & ~8)
			return false;
	return !*bytes || (*bytes <= 8 && in <= *bytes);
}

/*
 * ---- what nobody has written to
 * It has the pattern, whoever may have written; and as a store of a few bits may leave that as it is,
 * the stores of checked text are kept, too.
 */
static u8 *never_of(struct board *b, u64 addr)
{
	u64 at = physical(b, addr);

	return at < b->ram_size ? (u8 *)(uintptr_t)shadow(b)->never + (at >> 3) : NULL;
}

static void keep_store(struct board *b, u64 addr, u64 size)
{
	for (u64 at = addr & ~7ull; at < addr + size; at += 8) {
		u64 first = at < addr ? addr - at : 0, end = addr + size - at;
		u8 *never = never_of(b, at);

		if (never)
			*never &= ~((0xffu << first) & (end < 8 ? (1u << end) - 1 : 0xffu));
	}
}

static bool is_never_written(struct board *b, u64 addr)
{
	const u8 *byte = byte_of(b, addr), *never = never_of(b, addr);
	u64 at = physical(b, addr & ~3ull);

	return byte && *byte && *byte <= 8 && at < b->ram_size &&
	       (*never >> (addr & 4) & 15) == 15 &&
	       *(u32 *)(uintptr_t)(b->ram + at) == (u32)(NEVER_WRITTEN >> (addr & 4) * 8);
}

/* Return the first byte of [addr, addr + size) that nobody has written to, or 0. */
static u64 first_never_written(struct board *b, u64 addr, u64 size)
{
	for (u64 at = addr; at < addr + size; at = (at | 3) + 1)
		if (is_never_written(b, at))
			return at;
	return 0;
}

/* addr and size are multiples of 4. */
void fill_words(struct board *b, u64 addr, u64 size)
{
	for (u64 at = addr; at < addr + size; at += 4) {
		u32 *word = (u32 *)byte_in_ram(b, at);

		if (!word)
			continue;
		*word = (u32)(NEVER_WRITTEN >> (at & 4) * 8);
		*never_of(b, at) |= 15 << (at & 4);
	}
}

static void fill(struct board *b, u64 addr, u64 size)
{
	for (u64 at = addr; at < addr + size; at += 8) {
		u64 to = physical(b, at), count = addr + size - at < 8 ? addr + size - at : 8,
		    word = NEVER_WRITTEN;

		if (to >= b->ram_size)
			continue;
		__builtin_memcpy((u8 *)(uintptr_t)b->ram + to, &word, count);
		*never_of(b, at) = 0xff;
	}
}

/* ---- objects, one behind the other as they came, and a table by a hash of their addresses */
static bool has_room(const struct shadow *s)
{
	return s->nr_objects < NR_OBJECTS;
}

static struct object *find(struct shadow *s, u64 addr, bool make)
{
	u64 slot = (addr >> 3) * 0x9e3779b97f4a7c15ull >> 48;
	struct object *o;

	for (; s->slots[slot]; slot = (slot + 1) % NR_OBJECT_SLOTS) {
		o = &s->objects[s->slots[slot] - 1];
		if (o->addr == addr)
			return o;
	}
	if (!make)
		return NULL;
	if (!has_room(s)) {
		s->untracked++;
		return NULL;
	}
	o = &s->objects[s->nr_objects];
	s->slots[slot] = ++s->nr_objects;
	o->addr = addr;
	return o;
}

static struct object *known(struct shadow *s, u64 addr)
{
	struct object *o = find(s, addr, false);

	return o && o->state != OBJECT_GONE ? o : NULL;
}

/* Return the object that an address is in, or beside. */
static struct object *around(struct shadow *s, u64 addr)
{
	struct object *found = NULL;

	for (u64 i = 0; i < s->nr_objects; i++) {
		struct object *o = &s->objects[i];

		if (o->state == OBJECT_GONE || addr < o->begin || addr >= o->end)
			continue;
		if (!found || (addr >= o->addr && addr < o->addr + o->size))
			found = o;
	}
	return found;
}

/* An object that is kept after it was freed is known no more. */
static void forget_kept(struct shadow *s, struct object *gone)
{
	u64 number = gone - s->objects + 1, before = 0;

	for (u64 n = s->oldest; n; before = n, n = s->objects[n - 1].next) {
		if (n != number)
			continue;
		if (before)
			s->objects[before - 1].next = gone->next;
		else
			s->oldest = gone->next;
		if (s->newest == number)
			s->newest = before;
		s->kept -= gone->end - gone->begin;
		break;
	}
	gone->next = 0;
}

/* Nothing is known of an object's memory any more. */
static void forget(struct board *b, struct object *o)
{
	mark(b, o->begin, o->end - o->begin, 0);
	o->state = OBJECT_GONE;
}

static void report(struct board *b, u64 kind, u64 at, u64 addr, u64 size, u64 how, struct object *o)
{
	struct finding *f = text_report(b, kind, at, 0);

	if (!f)
		return;
	f->a = addr;
	f->b = size;
	f->c = how;
	f->object = o ? o - shadow(b)->objects + 1 : 0;
}

/* ---- accesses */
static bool is_on_stack(const struct board *b, u64 addr)
{
	return (addr ^ stack_pointer(b)) < STACK_SIZE;
}

/* Report that something depends on bytes that nobody has written to. */
static void check_written(struct board *b, u64 at, u64 addr, u64 size)
{
	u64 first, end, local = 0;

	if (!shadow(b)->fills)
		return;
	first = first_never_written(b, addr, size);
	if (!first)
		return;
	if (is_on_stack(b, first)) {
		local = local_at(b, first, &end);
		if (local)
			report(b, FOUND_UNINITIALIZED, at, first, size, local << HOW_LOCAL, NULL);
		return;
	}
	report(b, FOUND_UNINITIALIZED, at, first, size, false, around(shadow(b), first));
}

/* Return whether the canary of the task that runs is at an address of its stack. */
static bool is_canary(struct board *b, u64 addr)
{
	u64 slot = addr & ~7ull;

	return slot >= stack_pointer(b) && read_word(b, slot) == canary(b);
}

static void check(struct board *b, u64 at, u64 addr, u64 size, bool writes)
{
	u8 value = 0;
	u64 bad, kind = FOUND_OUT_OF_BOUNDS;
	struct object *o = NULL;

	if (addr < KERNEL_HALF || !size || is_fine(b, addr, size, &value))
		return;
	if (size > MAX_CHECKED)
		size = MAX_CHECKED;
	bad = first_bad(b, addr, size, &value);
	if (!bad)
		return;
	if (value == SHADOW_CANARY) {
		if (!is_canary(b, bad)) {
			/* of a call that has not returned, as of a task that has ended */
			mark(b, bad & ~7ull, 8, 0);
			return;
		}
		kind = FOUND_STACK;
	} else if (value == SHADOW_FREED) {
		kind = FOUND_USE_AFTER_FREE;
	}
	if (kind != FOUND_STACK)
		o = around(shadow(b), bad);
	if (kind == FOUND_OUT_OF_BOUNDS && !o)
		kind = FOUND_GLOBAL;
	/* compilers read the last bits of a variable with what is behind them in the same word */
	if (kind == FOUND_GLOBAL && !writes && bad > addr && size <= 8 && !(addr & (size - 1)))
		return;
	report(b, kind, at, bad, size, writes, o);
}

/*
 * A function with an array loads the canary and stores it below its caller's part of the stack, and
 * compares it at its end. In between nothing has to do with it.
 */
static bool is_about_canary(struct board *b, const struct look *l)
{
	const struct insn *i = l->insn;
	u8 *byte;

	if (i->flags & INSN_PER_CPU)
		return true;
	if (!(i->more & MORE_CANARY))
		return i->flags & INSN_ON_STACK;
	if (i->flags & INSN_WRITES) {
		if (register_value(b, i->reg) != canary(b))
			return false;
		mark(b, l->addr, 8, SHADOW_CANARY);
		return true;
	}
	byte = byte_of(b, l->addr);
	if (byte && *byte == SHADOW_CANARY)
		*byte = 0;
	return i->flags & INSN_ON_STACK;
}

/* An access of the stack at a constant distance is in bounds. */
static void look_at_local(struct board *b, const struct look *l)
{
	const u8 *byte = byte_of(b, l->addr);

	if (!byte || !*byte)
		return;
	if (l->insn->flags & INSN_WRITES)
		keep_store(b, l->addr, l->bytes);
	else
		check_written(b, l->at, l->addr, l->bytes);
}

/* Return whether an access may be one of those that are reported. */
bool may_be_wrong(const struct insn *i)
{
	return i->flags & (INSN_READS | INSN_WRITES) && !(i->flags & INSN_PER_CPU) &&
	       (i->more & (MORE_CANARY | MORE_LOCAL) || !(i->flags & INSN_ON_STACK));
}

void check_access(struct board *b, const struct look *l)
{
	const struct insn *i = l->insn;
	const u64 copies = INSN_STRING | INSN_READS | INSN_WRITES;
	u8 value;

	if (!l->bytes || l->addr < KERNEL_HALF)
		return;
	if (i->flags & (INSN_ON_STACK | INSN_PER_CPU) || i->more & MORE_CANARY)
		if (is_about_canary(b, l)) {
			if (i->more & MORE_LOCAL && shadow(b)->fills)
				look_at_local(b, l);
			return;
		}
	if (!is_fine(b, l->addr, l->bytes, &value))
		check(b, l->at, l->addr, l->bytes, i->flags & INSN_WRITES);
	else if (value && i->flags & INSN_WRITES && shadow(b)->fills)
		keep_store(b, l->addr, l->bytes);
	else if (value && i->more & MORE_DECIDES)
		check_written(b, l->at, l->addr, l->bytes);
	if ((i->flags & copies) == copies)
		check(b, l->at, string_source(b), l->bytes, false);
}

/* Return the length of a string with its end, of at most that many bytes. */
static u64 string_size(struct board *b, u64 addr, u64 most)
{
	u64 size = 0;

	while (size < most && size < MAX_STRING && read_word(b, addr + size++) & 0xff)
		;
	return size;
}

static u64 optional(const struct board *b, u8 argument, u64 otherwise)
{
	return argument == NO_ARGUMENT ? otherwise : call_argument(b, argument);
}

/* Report an operand that begins in one variable of a module and ends behind it. */
static void check_variable(struct board *b, u64 at, u64 addr, u64 size, bool writes)
{
	struct shadow *s = shadow(b);
	const struct variable *all = (const struct variable *)(uintptr_t)s->variables;
	u64 low = 0, high = s->nr_variables;

	if (!is_text_address(b, addr) || size > MAX_CHECKED)
		return;
	while (low < high) {
		u64 middle = (low + high) / 2;

		if (all[middle].end <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < s->nr_variables && addr >= all[low].first && addr + size > all[low].end)
		report(b, FOUND_GLOBAL, at, all[low].end, size, writes, NULL);
}

/* Report an operand that begins in one variable of a frame and ends behind it. */
static void check_local(struct board *b, u64 at, u64 addr, u64 size, bool writes)
{
	u64 end, local;

	if (!is_on_stack(b, addr) || size > MAX_CHECKED)
		return;
	local = local_at(b, addr, &end);
	if (local && addr + size > end)
		report(b, FOUND_STACK, at, end, size, writes | local << HOW_LOCAL, NULL);
}

/* Check what a function of the kernel accesses for checked text. */
static void check_operand(struct board *b, u64 at, u64 addr, u64 size, bool writes)
{
	check_local(b, at, addr, size, writes);
	check(b, at, addr, size, writes);
	check_variable(b, at, addr, size, writes);
}

static void check_string(struct board *b, struct look *l)
{
	const struct function *f = l->callee;
	u64 most = optional(b, f->size, MAX_STRING), source = optional(b, f->source, 0),
	    to = optional(b, f->to, 0);
	u64 size = source ? string_size(b, source, most) : 0;

	if (f->how & HOW_FORMATS) {
		struct behind *call = text_behind(b, l);

		call->data[0] = to;
		call->data[1] = most;
		call->data[2] = l->at;
		return;
	}
	if (source)
		check_operand(b, l->at, source, size, false);
	if (!to)
		return;
	if (f->how & HOW_READS)
		check_operand(b, l->at, to, string_size(b, to, most), false);
	else if (f->how & HOW_JOINS)
		check_operand(b, l->at, to, string_size(b, to, MAX_STRING) - 1 + size, true);
	else
		check_operand(b, l->at, to, size, true);
}

static void check_copy(struct board *b, struct look *l)
{
	const struct function *f = l->callee;
	u64 size = call_argument(b, f->size), source = optional(b, f->source, 0);

	if (f->to != NO_ARGUMENT)
		check_operand(b, l->at, call_argument(b, f->to), size, !(f->how & HOW_READS));
	if (!source)
		return;
	check_operand(b, l->at, source, size, false);
	if (f->how & HOW_TO_USER && source >= KERNEL_HALF && size <= MAX_CHECKED)
		check_written(b, l->at, source, size);
}

/* Check objects of the kernel's own types, such as locks and nodes of lists. */
static void check_uses(struct board *b, const struct look *l)
{
	const struct function *f = l->callee;

	check(b, l->at, optional(b, f->to, 0), f->bytes, false);
	check(b, l->at, optional(b, f->source, 0), f->bytes, false);
}

/* ---- pages */
static u64 page_at(const struct board *b, u64 addr)
{
	const struct shadow *s = shadow(b);

	return s->pages + (addr - texts(b)->direct) / PAGE * s->page_size;
}

static u64 address_of_page(const struct board *b, u64 page)
{
	const struct shadow *s = shadow(b);

	return texts(b)->direct + (page - s->pages) / s->page_size * PAGE;
}

/* Return what a function frees or takes over. */
static u64 address_given(const struct board *b, const struct function *f)
{
	u64 given = call_argument(b, f->to);

	return f->how & HOW_PAGE ? address_of_page(b, given) : given;
}

static u32 *refcount(struct board *b, u64 addr)
{
	return (u32 *)byte_in_ram(b, page_at(b, addr) + shadow(b)->refcount);
}

/* Return how many bytes of pages behind an object are its own. */
static u64 spare(const struct object *o)
{
	return o->frees & HOW_ORDER && o->end >= o->addr + 2 * o->size ? o->size : 0;
}

static u64 order_of(u64 size)
{
	return __builtin_ctzll(size / PAGE);
}

/* Return whether an allocation of so many bytes of pages may have as many behind it. */
static bool can_have_spare(const struct shadow *s, const struct function *f, u64 flags, u64 size)
{
	return f->size != NO_ARGUMENT && !(flags & GFP_NO_SPARE) && 2 * size <= MAX_ENLARGED &&
	       has_room(s);
}

/* Have another function called first; this one's arguments are as they were when it begins again. */
static bool call_first(struct board *b, struct look *l, u64 function)
{
	for (int i = 0; i < NR_RESUMED; i++) {
		struct resumed *r = &shadow(b)->resumed[i];

		if (r->sp)
			continue;
		r->sp = l->sp;
		r->back = l->back;
		for (int k = 0; k < 4; k++)
			r->args[k] = call_argument(b, k);
		text_call(b, l, function);
		return true;
	}
	return false;
}

static bool begins_again(struct board *b, struct look *l)
{
	for (int i = 0; i < NR_RESUMED; i++) {
		struct resumed *r = &shadow(b)->resumed[i];

		if (r->sp != l->sp)
			continue;
		r->sp = 0;
		for (int k = 0; k < 4; k++)
			set_argument(b, k, r->args[k]);
		enter_call(b, l->sp, r->back);
		l->back = r->back;
		return true;
	}
	return false;
}

/* Free the pages behind an object, before a function that knows nothing of them. */
static void free_spare(struct board *b, struct look *l, const struct object *o)
{
	u64 behind = o->addr + o->size;
	u32 *count = refcount(b, behind);

	if (!spare(o) || !count || !call_first(b, l, shadow(b)->free_pages))
		return;
	*count = 1;
	set_argument(b, 0, page_at(b, behind));
	set_argument(b, 1, order_of(o->size));
}

/* ---- allocation */
/* Return how many bytes before an object are to be free, so that its alignment is kmalloc()'s. */
static u64 left_zone(u64 size)
{
	u64 lowest = size & -size;

	return lowest > RED_ZONE ? lowest : RED_ZONE;
}

static const struct own_cache *own_cache(const struct shadow *s, u64 addr)
{
	for (u64 i = 0; i < s->nr_caches; i++)
		if (s->caches[i].addr == addr)
			return &s->caches[i];
	return NULL;
}

/* Text is about to allocate: remember what, and ask for more. True: another function is called. */
static bool allocate(struct board *b, struct look *l)
{
	struct shadow *s = shadow(b);
	const struct function *f = l->callee;
	u64 size = f->size == NO_ARGUMENT ? 0 : call_argument(b, f->size), left = 0, right = 0;
	u64 flags = optional(b, f->flags, 0);
	struct behind *call;

	if (f->how & HOW_ORDER)
		size = PAGE << (f->size == NO_ARGUMENT ? 0 : size);
	else if (f->how & HOW_STRING)
		size = string_size(b, call_argument(b, f->source),
				   f->size == NO_ARGUMENT ? MAX_STRING : size);
	else if (f->how & HOW_ARRAY)
		size *= call_argument(b, f->source);
	else if (f->how & HOW_CACHE)
		size = (u32)read_word(b, call_argument(b, f->source) + s->object_size);
	if (f->how & (HOW_ENLARGE | HOW_REDIRECT) && size &&
	    left_zone(size) + size <= MAX_ENLARGED && has_room(s)) {
		left = left_zone(size);
		right = RED_ZONE + (-size & 7);
	} else if (f->how & HOW_ORDER && can_have_spare(s, f, flags, size)) {
		right = size;
	}
	call = text_behind(b, l);
	call->data[0] = size;
	call->data[1] = left;
	call->data[2] = right;
	call->data[3] = f->how & HOW_CACHE ? call_argument(b, f->source) : 0;
	call->data[4] = f->how & HOW_RAW && !(flags & GFP_ZERO);
	if (!right)
		return false;
	if (f->how & HOW_REDIRECT) {
		set_argument(b, 0, left + size + right); /* __kmalloc(size, flags) */
		text_redirect(b, l, texts(b)->kmalloc);
		return true;
	}
	set_argument(b, f->size, f->how & HOW_ORDER ? order_of(2 * size) : left + size + right);
	return false;
}

/* The call has returned an object. */
static void allocated(struct board *b, const struct behind *call)
{
	struct shadow *s = shadow(b);
	const struct function *f = &texts(b)->functions[call->function];
	u64 addr = result(b), size = call->data[0], left = call->data[1], right = call->data[2];
	const struct own_cache *cache = own_cache(s, call->data[3]);
	struct object *o;

	if (!addr || addr >= ERRORS || addr == ZERO_SIZE || addr & 7)
		return;
	if (f->how & HOW_PAGE)
		addr = address_of_page(b, addr);
	if (cache)
		left = cache->left;
	o = find(s, addr + left, true);
	if (!o) /* it is not moved then, so that it can be freed */
		return;
	if (o->state == OBJECT_FREED) /* it was freed behind our back */
		forget_kept(s, o);
	o->given = addr;
	addr += left;
	if (!(f->how & HOW_PAGE))
		set_result(b, addr);
	o->size = cache ? cache->size : size;
	o->begin = o->given;
	o->end = addr + o->size + right;
	if (cache) {
		o->end = addr + o->size + RED_ZONE;
		if (!left && addr % PAGE >= RED_ZONE)
			o->begin = addr - RED_ZONE;
	} else if (f->how & HOW_PAGES) {
		o->end = (o->end + PAGE - 1) & -PAGE;
	}
	o->end = (o->end + 7) & ~7ull;
	o->state = OBJECT_LIVE;
	o->function = call->function;
	o->frees = f->how & (HOW_CACHE | HOW_PAGES | HOW_ORDER);
	if (!o->frees && addr - texts(b)->direct >= b->ram_size)
		o->frees = HOW_PAGES; /* kvmalloc() and its like */
	o->cache = call->data[3];
	o->at = call->from;
	o->owner = text_owner(b, call->from);
	keep_task(b, &o->pid, o->comm);
	o->freed_at = 0;
	keep_stack(b, stack_pointer(b), o->stack, OBJECT_STACK);
	mark_object(b, o);
	/* objects of other caches may be made before they are allocated */
	if (s->fills && call->data[4] && (!o->cache || left))
		fill(b, addr, o->size);
}

/* ---- frees */
/* Keep an object that was freed. */
static void keep(struct board *b, struct object *o, u64 at, bool poison)
{
	struct shadow *s = shadow(b);
	u64 number = o - s->objects + 1;

	o->state = OBJECT_FREED;
	o->freed_at = at;
	keep_task(b, &o->freed_pid, o->freed_comm);
	keep_stack(b, stack_pointer(b) + 8, o->freed_stack, OBJECT_STACK);
	if (poison)
		mark(b, o->begin, o->end - o->begin, SHADOW_FREED);
	o->next = 0;
	if (s->newest)
		s->objects[s->newest - 1].next = number;
	else
		s->oldest = number;
	s->newest = number;
	s->kept += o->end - o->begin;
}

/* Return the object that was freed first by the same means, if too much is kept. */
static struct object *to_free(struct shadow *s, const struct object *freed)
{
	if (s->kept <= s->keep)
		return NULL;
	for (u64 n = s->oldest; n; n = s->objects[n - 1].next) {
		struct object *o = &s->objects[n - 1];

		if (o->frees == freed->frees && o->cache == freed->cache && o != freed &&
		    (!(o->frees & HOW_PAGES) || o->size == freed->size))
			return o;
	}
	return NULL;
}

/* Return whether an object is of another kind than what a function frees. */
static bool is_freed_wrongly(const struct function *f, const struct object *o)
{
	const u64 kinds = HOW_CACHE | HOW_PAGES | HOW_ORDER;

	if (f->how & HOW_CACHE)
		return !(o->frees & HOW_CACHE);
	if (o->frees & HOW_CACHE) /* kfree() may free these */
		return f->how & HOW_PAGES;
	return (f->how & kinds) != o->frees;
}

/* Return whether pages are free when a function has freed them; have it free what is behind. */
static bool frees_all(struct board *b, const struct function *f, const struct object *o)
{
	u64 order = call_argument(b, f->size);
	const u32 *count = refcount(b, o->addr);

	if (PAGE << order != o->size) /* they were split */
		return false;
	if (count && *count == 1)
		return true;
	set_argument(b, f->size, order_of(o->size + spare(o)));
	return false;
}

/* A function that frees begins. at: its caller. */
static void freed(struct board *b, struct look *l)
{
	struct shadow *s = shadow(b);
	const struct function *f = l->callee;
	u64 addr = address_given(b, f);
	struct object *o = known(s, addr), *other;
	const struct own_cache *cache;
	const u8 *byte;

	if (!addr || addr < KERNEL_HALF)
		return;
	if (!o) {
		byte = in_texts(b, l->back) ? byte_of(b, addr) : NULL;
		if (!byte || f->how & HOW_PAGE) /* which may be one of several */
			return;
		if (*byte && (o = around(s, addr)) && o->state == OBJECT_LIVE) {
			report(b, FOUND_INVALID_FREE, l->back, addr, 0, 0, o);
			keep(b, o, l->back, false);
			text_skip(b, l, 0);
		} else if (is_text_address(b, addr) || (addr ^ l->sp) < STACK_SIZE) {
			report(b, FOUND_INVALID_FREE, l->back, addr, 0, 0, NULL);
			text_skip(b, l, 0);
		}
		return;
	}
	if (o->state == OBJECT_FREED) {
		report(b, FOUND_DOUBLE_FREE, l->back, addr, 0, 0, o);
		text_skip(b, l, 0);
		return;
	}
	if (is_freed_wrongly(f, o)) {
		report(b, FOUND_INVALID_FREE, l->back, addr, 0, 1, o);
		keep(b, o, l->back, false);
		text_skip(b, l, 0);
		return;
	}
	cache = own_cache(s, o->cache);
	if (f->how & HOW_CACHE && (!cache || cache->reuses)) {
		forget(b, o);
		return;
	}
	if (f->how & HOW_ORDER && !frees_all(b, f, o)) {
		forget(b, o);
		return;
	}
	keep(b, o, l->back, true);
	other = to_free(s, o);
	if (!other) {
		text_skip(b, l, 0);
		return;
	}
	forget_kept(s, other);
	forget(b, other);
	set_argument(b, f->to, f->how & HOW_PAGE ? page_at(b, other->given) : other->given);
	if (f->how & HOW_ORDER)
		set_argument(b, f->size, order_of(other->size + spare(other)));
}

/* It is freed later, by RCU, and may be read till then. */
static void freed_later(struct board *b, struct look *l)
{
	u64 addr = call_argument(b, 1);
	struct object *o;

	if (addr < PAGE) /* before Linux 6.3: the distance from the object */
		addr = call_argument(b, 0) - addr;
	o = known(shadow(b), addr);
	if (!o || o->state != OBJECT_LIVE || (o->cache && !own_cache(shadow(b), o->cache)))
		return;
	keep(b, o, l->back, false);
	text_skip(b, l, 0);
}

/* Let the kernel have an object as it was allocated, with its contents where the kernel looks. */
static u64 given_back(struct board *b, struct object *o)
{
	u64 shift = o->addr - o->given;

	for (u64 i = 0; shift && i < o->size; i += 8) {
		u8 *to = byte_in_ram(b, o->given + i), *from = byte_in_ram(b, o->addr + i);
		u64 count = o->size - i < 8 ? o->size - i : 8;

		if (to && from)
			__builtin_memmove(to, from, count);
	}
	forget(b, o);
	return o->given;
}

static void forget_page(struct board *b, u64 page)
{
	struct object *o = known(shadow(b), address_of_page(b, page));

	if (o && o->state == OBJECT_LIVE)
		forget(b, o);
}

/* Many pages are freed together. */
static void pages_freed(struct board *b, const struct function *f)
{
	u64 list = call_argument(b, f->to), lru = shadow(b)->lru, at;
	u64 count = f->how & HOW_ARRAY ? read_word(b, list) & 0xff : MAX_STRING;

	if (f->how & HOW_ARRAY) {
		for (u64 i = 1; i <= count; i++)
			forget_page(b, read_word(b, list + 8 * i));
		return;
	}
	for (at = read_word(b, list); at && at != list && count--; at = read_word(b, at))
		forget_page(b, at - lru);
}

/* Another function takes an object over. */
static void taken_over(struct board *b, struct look *l)
{
	struct shadow *s = shadow(b);
	const struct function *f = l->callee;
	struct object *o;
	u64 addr;

	if (f->how & HOW_LIST) {
		pages_freed(b, f);
		return;
	}
	if (f->how & HOW_PAGE && begins_again(b, l))
		return;
	if (f->how & HOW_ARRAY) { /* several */
		u64 count = call_argument(b, f->size), list = call_argument(b, f->to);

		for (u64 i = 0; i < count && i < MAX_STRING; i++) {
			o = known(s, read_word(b, list + 8 * i));
			if (o && o->state == OBJECT_LIVE) {
				u64 *word = (u64 *)byte_in_ram(b, list + 8 * i);

				if (word)
					*word = o->given;
				forget(b, o);
			}
		}
		return;
	}
	o = known(s, address_given(b, f));
	if (!o || o->state != OBJECT_LIVE)
		return;
	addr = given_back(b, o);
	if (f->how & HOW_PAGE)
		free_spare(b, l, o);
	else
		set_argument(b, f->to, addr);
}

/* ---- caches */
/* Return whether objects of a cache that is about to be made may begin where we want them to. */
static bool can_be_moved(struct board *b, const struct look *l)
{
	const struct function *f = l->callee;
	u64 args = call_argument(b, f->source);

	if (f->source == NO_ARGUMENT) /* with a part that programs may copy */
		return false;
	if (!(f->how & HOW_AGAIN))
		return !args && call_argument(b, 2) <= LEFT_IN_CACHE;
	return !read_word(b, args + shadow(b)->ctor) &&
	       (u32)read_word(b, args + shadow(b)->align) <= LEFT_IN_CACHE &&
	       !(u32)read_word(b, args + shadow(b)->usersize);
}

static void make_cache(struct board *b, struct look *l)
{
	struct shadow *s = shadow(b);
	const struct function *f = l->callee;
	u64 size = (u32)call_argument(b, f->size), flags = call_argument(b, 3), left;
	struct behind *call = text_behind(b, l);

	left = flags & s->typesafe || !can_be_moved(b, l) ? 0 : LEFT_IN_CACHE;
	call->data[0] = size;
	call->data[1] = flags & s->typesafe;
	call->data[2] = left;
	set_argument(b, f->size, left + size + RED_ZONE + (-size & 7));
	set_argument(b, 3, flags | s->no_merge);
}

static void cache_made(struct board *b, const struct behind *call)
{
	struct shadow *s = shadow(b);
	struct own_cache made = { result(b), call->data[0], call->data[1], call->data[2] };

	if (made.addr && made.addr < ERRORS && s->nr_caches < NR_CACHES)
		s->caches[s->nr_caches++] = made;
}

/* Before a cache is destroyed, free those of its objects that are kept, one after the other. */
static void destroy_cache(struct board *b, struct look *l)
{
	struct shadow *s = shadow(b);
	u64 cache;

	begins_again(b, l);
	cache = call_argument(b, 0);
	if (!cache) /* which may be destroyed, too */
		return;
	for (u64 n = s->oldest; n; n = s->objects[n - 1].next) {
		struct object *o = &s->objects[n - 1];

		if (o->cache != cache)
			continue;
		if (!call_first(b, l, s->free_object))
			break;
		forget_kept(s, o);
		forget(b, o);
		set_argument(b, 1, o->given);
		return;
	}
	for (u64 i = 0; i < s->nr_caches; i++)
		if (s->caches[i].addr == cache)
			s->caches[i--] = s->caches[--s->nr_caches];
}

/* ---- what text.c calls */
bool look_at_memory(struct board *b, struct look *l)
{
	check_access(b, l);
	if (!l->callee)
		return false;
	if (l->callee->bytes)
		check_uses(b, l);
	switch (l->callee->kind) {
	case FN_ALLOC:  return allocate(b, l);
	case FN_CACHE:  make_cache(b, l); return false;
	case FN_COPY:   check_copy(b, l); return false;
	case FN_STRING: check_string(b, l); return false;
	}
	return false;
}

void behind_memory(struct board *b, const struct behind *call)
{
	const struct function *f = &texts(b)->functions[call->function];
	u64 written = (u32)result(b) + 1ull;

	if (f->kind == FN_ALLOC)
		allocated(b, call);
	else if (f->kind == FN_CACHE)
		cache_made(b, call);
	else
		check_operand(b, call->data[2], call->data[0],
			      written < call->data[1] ? written : call->data[1], true);
}

void enter_memory(struct board *b, struct look *l)
{
	const struct function *f = l->callee;
	struct object *o;

	switch (f->entry_kind) {
	case FN_FREE:       freed(b, l); break;
	case FN_FORGET:     taken_over(b, l); break;
	case FN_FREE_LATER: freed_later(b, l); break;
	case FN_UNCACHE:    destroy_cache(b, l); break;
	case FN_SIZE:
		o = known(shadow(b), call_argument(b, f->to));
		if (o)
			text_skip(b, l, o->size);
		break;
	}
}

void mark_bytes(struct board *b, u64 addr, u64 size, u8 value)
{
	mark(b, addr, size, value);
}

/* Let checked text not access what is between two variables. */
__attribute__((visibility("default"))) void board_mark_gap(struct board *b, u64 first, u64 size)
{
	u64 begin = (first + 7) & ~7ull;
	u8 *byte;

	if (first + size < begin)
		return;
	if (begin > first && (byte = byte_of(b, first)))
		*byte = first & 7;
	mark(b, begin, (first + size - begin) & ~7ull, SHADOW_GLOBAL);
}

/* The memory of a module is freed. */
__attribute__((visibility("default"))) void board_unmark(struct board *b, u64 first, u64 size)
{
	mark(b, first & ~7ull, ((first + size + 7) & ~7ull) - (first & ~7ull), 0);
}
