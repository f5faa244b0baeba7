// SPDX-License-Identifier: GPL-2.0-or-later
/* The place of the next record in the ring buffer of a CPU: all writers ask here. */
#include "ring.h"

/* Count what lite.S has written since the last time, and have it write no more for now. */
static void settle(struct kp_ring *r)
{
	struct kp_page *page = (struct kp_page *)r->pages + r->tail;
	u64 commit = (u32)((u32)r->place - (u32)(u64)page->data);
	u64 count = r->place >> 32;

	if (count) {
		r->page_entries[r->tail] += count;
		r->entries += count;
		r->bytes += commit - page->commit;
		page->commit = commit;
	}
	r->place = 0;
}

/*
 * Return the bytes of a page that gets no more entries, as they are counted: Linux fills it up.
 * Kernel: rb_reset_tail()
 */
static u64 page_bytes(const struct kp_page *page)
{
	return page->commit + 8 > KP_PAGE_DATA ? page->commit : KP_PAGE_DATA;
}

/* Go on to the page after the tail; return 0 if the buffer is full and keeps its oldest records. */
static struct kp_page *next_page(struct kp_ring *r)
{
	u64 next = r->tail + 1;
	struct kp_page *page = (struct kp_page *)r->pages + r->tail;

	if (!r->full)
		r->bytes += page_bytes(page) - page->commit;
	r->full = 1;
	if (next == r->nr_pages)
		next = 0;
	page = (struct kp_page *)r->pages + next;
	if (next == r->head) {
		if (!r->overwrite)
			return 0;
		r->overrun += r->page_entries[next];
		r->bytes -= page_bytes(page) - r->read;
		r->read = 0;
		r->head = next + 1 == r->nr_pages ? 0 : next + 1;
	}
	r->full = 0;
	r->tail = next;
	r->page_entries[next] = 0;
	page->commit = 0;
	return page;
}

/* Return the time of a new record. Kernel: rb_time_stamp() */
static inline u64 ring_clock(struct kp_ring *r)
{
	u64 ts;

	if (r->on & RING_SLOW_CLOCK && !r->quantum)
		return ++*(u64 *)r->counter;
	ts = *(u64 *)kp_const64(clock) += kp_const32(clock_step);
	return r->on & RING_SLOW_CLOCK ? ts / r->quantum + r->offset : ts;
}

/* Return a place for a record of size bytes, or 0. Kernel: ring_buffer_lock_reserve() */
void *kp_ring_place(struct kp_ring *r, u64 size)
{
	u64 words = (size + 3) / 4, need = words * 4 + (words > MAX_SMALL_DATA / 4 ? 8 : 4);
	u64 ts, delta, extend;
	struct kp_page *page;
	u32 *p;

	if (!r || !r->on || need > KP_PAGE_DATA)
		return 0;
	settle(r);
	page = (struct kp_page *)r->pages + r->tail;
	ts = ring_clock(r);
	delta = ts - r->last_ts;
	extend = delta >> DELTA_BITS ? 8 : 0;
	if (r->full || page->commit + need + extend > KP_PAGE_DATA) {
		page = next_page(r);
		if (!page) {
			r->dropped++;
			return 0;
		}
	}
	if (!page->commit) {
		page->time_stamp = ts;
		delta = 0;
		extend = 0;
	}
	p = (u32 *)(page->data + page->commit);
	if (extend) {
		*p++ = TYPE_TIME_EXTEND | (u32)delta << 5;
		*p++ = delta >> DELTA_BITS;
		delta = 0;
	}
	if (words > MAX_SMALL_DATA / 4) {
		*p++ = (u32)delta << 5;
		*p++ = words * 4 + 4;
	} else {
		*p++ = (u32)delta << 5 | words;
	}
	need += extend;
	page->commit += need;
	r->page_entries[r->tail]++;
	r->bytes += need;
	r->entries++;
	r->last_ts = ts;
	if (r->on == 1)
		r->place = (u32)(u64)(page->data + page->commit);
	return p;
}
