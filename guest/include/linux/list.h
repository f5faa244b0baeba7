/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/types.h>

#define LIST_HEAD_INIT(n) { &(n), &(n) }
#define LIST_HEAD(n) struct list_head n = LIST_HEAD_INIT(n)
#define LIST_POISON1 ((void *)0xdead000000000100UL)
#define LIST_POISON2 ((void *)0xdead000000000122UL)

static inline void INIT_LIST_HEAD(struct list_head *l) { l->next = l->prev = l; }

static inline void __list_add(struct list_head *n, struct list_head *prev, struct list_head *next)
{
	next->prev = n;
	n->next = next;
	n->prev = prev;
	prev->next = n;
}

static inline void list_add(struct list_head *n, struct list_head *h) { __list_add(n, h, h->next); }
static inline void list_add_tail(struct list_head *n, struct list_head *h)
{
	__list_add(n, h->prev, h);
}

static inline void __list_del_entry(struct list_head *e)
{
	e->next->prev = e->prev;
	e->prev->next = e->next;
}

static inline void list_del(struct list_head *e)
{
	__list_del_entry(e);
	e->next = LIST_POISON1;
	e->prev = LIST_POISON2;
}

static inline void list_del_init(struct list_head *e)
{
	__list_del_entry(e);
	INIT_LIST_HEAD(e);
}

static inline void list_move(struct list_head *e, struct list_head *h)
{
	__list_del_entry(e);
	list_add(e, h);
}

static inline void list_move_tail(struct list_head *e, struct list_head *h)
{
	__list_del_entry(e);
	list_add_tail(e, h);
}

static inline int list_empty(const struct list_head *h) { return READ_ONCE(h->next) == h; }
static inline int list_is_last(const struct list_head *e, const struct list_head *h)
{
	return e->next == h;
}

static inline void list_splice_init(struct list_head *l, struct list_head *h)
{
	if (list_empty(l))
		return;
	l->next->prev = h;
	l->prev->next = h->next;
	h->next->prev = l->prev;
	h->next = l->next;
	INIT_LIST_HEAD(l);
}

#define list_entry(p, t, m) container_of(p, t, m)
#define list_first_entry(h, t, m) list_entry((h)->next, t, m)
#define list_last_entry(h, t, m) list_entry((h)->prev, t, m)
#define list_first_entry_or_null(h, t, m) (list_empty(h) ? NULL : list_first_entry(h, t, m))
#define list_next_entry(p, m) list_entry((p)->m.next, __typeof__(*(p)), m)
#define list_for_each(p, h) for (p = (h)->next; p != (h); p = p->next)
#define list_for_each_safe(p, n, h) for (p = (h)->next, n = p->next; p != (h); p = n, n = p->next)
#define list_for_each_entry(p, h, m) \
	for (p = list_first_entry(h, __typeof__(*p), m); &p->m != (h); p = list_next_entry(p, m))
#define list_prev_entry(p, m) list_entry((p)->m.prev, __typeof__(*(p)), m)
#define list_for_each_entry_reverse(p, h, m) \
	for (p = list_last_entry(h, __typeof__(*p), m); &p->m != (h); p = list_prev_entry(p, m))
#define list_for_each_entry_safe(p, n, h, m) \
	for (p = list_first_entry(h, __typeof__(*p), m), n = list_next_entry(p, m); \
	     &p->m != (h); p = n, n = list_next_entry(n, m))

#define INIT_HLIST_HEAD(h) ((h)->first = NULL)
static inline void INIT_HLIST_NODE(struct hlist_node *n)
{
	n->next = NULL;
	n->pprev = NULL;
}
static inline int hlist_unhashed(const struct hlist_node *n) { return !n->pprev; }
static inline int hlist_empty(const struct hlist_head *h) { return !h->first; }

static inline void hlist_add_head(struct hlist_node *n, struct hlist_head *h)
{
	n->next = h->first;
	if (h->first)
		h->first->pprev = &n->next;
	h->first = n;
	n->pprev = &h->first;
}

static inline void hlist_del_init(struct hlist_node *n)
{
	if (hlist_unhashed(n))
		return;
	*n->pprev = n->next;
	if (n->next)
		n->next->pprev = n->pprev;
	INIT_HLIST_NODE(n);
}
#define hlist_del(n) hlist_del_init(n)

#define hlist_entry_safe(p, t, m) ({ __typeof__(p) __p = (p); __p ? container_of(__p, t, m) : NULL; })
#define hlist_for_each_entry(p, h, m) \
	for (p = hlist_entry_safe((h)->first, __typeof__(*(p)), m); p; \
	     p = hlist_entry_safe((p)->m.next, __typeof__(*(p)), m))
#define hlist_for_each_entry_safe(p, n, h, m) \
	for (p = hlist_entry_safe((h)->first, __typeof__(*(p)), m); p && ({ n = (p)->m.next; 1; }); \
	     p = hlist_entry_safe(n, __typeof__(*(p)), m))
