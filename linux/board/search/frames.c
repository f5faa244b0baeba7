// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The variables that functions of checked text have on the stack, as their debug information tells.
 *
 * Where such a function begins, its variables are marked as memory that checked text may access and
 * that nobody has written. Its frame is known until it returns, or jumps to another function, which has
 * the same place on the stack then. A task that ends in between leaves a frame that is not there; so
 * its return address is compared.
 *
 * Variables without a gap between them are not told apart by an access to one of them, only by the
 * size that a function of the kernel is given.
 */
#include "shadow.h"
#include "looks.h"

static const struct local *locals(const struct shadow *s, const struct framed *f)
{
	return (const struct local *)(uintptr_t)s->locals + f->first;
}

static const struct framed *find_framed(const struct shadow *s, u64 entry)
{
	const struct framed *all = (const struct framed *)(uintptr_t)s->framed;
	u64 low = 0, high = s->nr_framed;

	while (low < high) {
		u64 middle = (low + high) / 2;

		if (all[middle].entry < entry)
			low = middle + 1;
		else
			high = middle;
	}
	return low < s->nr_framed && all[low].entry == entry ? &all[low] : NULL;
}

/* The frame at an address takes the place of another one that has the same slot. */
static struct frame *slot(struct shadow *s, u64 top)
{
	return &s->frames[(top >> 3) % NR_FRAMES];
}

static void mark_local(struct board *b, u64 begin, const struct local *l)
{
	u64 end = begin + l->size, first = (begin + 3) & ~3ull;

	mark_bytes(b, begin & ~7ull, ((end + 7) & ~7ull) - (begin & ~7ull), 8);
	if (shadow(b)->fills && (end & ~3ull) > first)
		fill_words(b, first, (end & ~3ull) - first);
}

void frame_begins(struct board *b, u64 addr)
{
	struct shadow *s = shadow(b);
	const struct framed *f = find_framed(s, addr);
	u64 top = frame_top(b);

	if (!f)
		return;
	*slot(s, top) = (struct frame){ top, frame_word(b, top), addr };
	for (u64 i = 0; i < f->count; i++)
		mark_local(b, top + locals(s, f)[i].offset, &locals(s, f)[i]);
}

void frame_ends(struct board *b)
{
	struct shadow *s = shadow(b);
	u64 top = frame_top(b);
	struct frame *frame = slot(s, top);
	const struct framed *f = frame->top == top ? find_framed(s, frame->entry) : NULL;

	if (!f)
		return;
	frame->top = 0;
	for (u64 i = 0; i < f->count; i++) {
		u64 begin = top + locals(s, f)[i].offset;

		mark_bytes(b, begin & ~7ull, ((begin & 7) + locals(s, f)[i].size + 7) & ~7ull, 0);
	}
}

/* Return the innermost frame that is there and above an address of the stack. */
static const struct frame *frame_above(struct board *b, u64 addr)
{
	const struct shadow *s = shadow(b);
	u64 end = (stack_pointer(b) | (STACK_SIZE - 1)) + 1;
	const struct frame *found = NULL;

	for (int i = 0; i < NR_FRAMES; i++) {
		const struct frame *f = &s->frames[i];

		if (f->top <= addr || f->top > end || (found && f->top > found->top))
			continue;
		if (f->top > stack_pointer(b) && frame_word(b, f->top) == f->word)
			found = f;
	}
	return found;
}

u64 local_at(struct board *b, u64 addr, u64 *end)
{
	const struct shadow *s = shadow(b);
	const struct frame *frame = addr < stack_pointer(b) ? NULL : frame_above(b, addr);
	const struct framed *f = frame ? find_framed(s, frame->entry) : NULL;
	u64 found = 0;

	for (u64 i = 0; f && i < f->count; i++) {
		u64 begin = frame->top + locals(s, f)[i].offset;

		if (addr < begin || addr >= begin + locals(s, f)[i].size)
			continue;
		if (found && begin + locals(s, f)[i].size <= *end)
			continue;
		*end = begin + locals(s, f)[i].size;
		found = f->first + i + 1;
	}
	return found;
}
