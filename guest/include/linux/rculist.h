/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Lists that are read under rcu_read_lock() while one writer at a time changes them. */
#pragma once
#include <linux/list.h>
#include <linux/rcupdate.h>

static inline void list_add_rcu(struct list_head *n, struct list_head *h)
{
	struct list_head *next = h->next;

	n->next = next;
	n->prev = h;
	rcu_assign_pointer(h->next, n);
	next->prev = n;
}

static inline void list_add_tail_rcu(struct list_head *n, struct list_head *h)
{
	list_add_rcu(n, h->prev);
}

/* A reader that stands at the entry goes on from it, so its next stays. */
static inline void list_del_rcu(struct list_head *e)
{
	__list_del_entry(e);
	e->prev = LIST_POISON2;
}

static inline void list_replace_rcu(struct list_head *old, struct list_head *n)
{
	n->next = old->next;
	n->prev = old->prev;
	rcu_assign_pointer(n->prev->next, n);
	n->next->prev = n;
	old->prev = LIST_POISON2;
}

#define list_next_rcu(l) ((l)->next)
#define list_entry_rcu(p, t, m) container_of(READ_ONCE(p), t, m)
#define list_first_or_null_rcu(h, t, m) \
	({ \
		struct list_head *__h = (h), *__first = READ_ONCE(__h->next); \
		__first == __h ? NULL : list_entry(__first, t, m); \
	})
/* The words after the member are a condition for lockdep. */
#define list_for_each_entry_rcu(p, h, m, cond...) \
	for (p = list_entry_rcu((h)->next, __typeof__(*p), m); &p->m != (h); \
	     p = list_entry_rcu(p->m.next, __typeof__(*p), m))
#define list_for_each_entry_continue_rcu(p, h, m) \
	for (p = list_entry_rcu(p->m.next, __typeof__(*p), m); &p->m != (h); \
	     p = list_entry_rcu(p->m.next, __typeof__(*p), m))

static inline void hlist_add_head_rcu(struct hlist_node *n, struct hlist_head *h)
{
	struct hlist_node *first = h->first;

	n->next = first;
	n->pprev = &h->first;
	rcu_assign_pointer(h->first, n);
	if (first)
		first->pprev = &n->next;
}

static inline void hlist_del_rcu(struct hlist_node *n)
{
	WRITE_ONCE(*n->pprev, n->next);
	if (n->next)
		n->next->pprev = n->pprev;
	n->pprev = LIST_POISON2;
}

static inline void hlist_del_init_rcu(struct hlist_node *n)
{
	if (hlist_unhashed(n))
		return;
	hlist_del_rcu(n);
	n->pprev = NULL;
}

#define hlist_first_rcu(h) ((h)->first)
#define hlist_next_rcu(n) ((n)->next)
#define hlist_for_each_entry_rcu(p, h, m, cond...) \
	for (p = hlist_entry_safe(READ_ONCE((h)->first), __typeof__(*(p)), m); p; \
	     p = hlist_entry_safe(READ_ONCE((p)->m.next), __typeof__(*(p)), m))
