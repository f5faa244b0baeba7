/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/atomic.h>

struct kref { atomic_t refcount; };
#define KREF_INIT(n) { ATOMIC_INIT(n) }
static inline void kref_init(struct kref *k) { atomic_set(&k->refcount, 1); }
static inline unsigned int kref_read(const struct kref *k) { return atomic_read(&k->refcount); }
static inline void kref_get(struct kref *k) { atomic_inc(&k->refcount); }
static inline int kref_get_unless_zero(struct kref *k) { return atomic_inc_not_zero(&k->refcount); }
static inline int kref_put(struct kref *k, void (*release)(struct kref *kref))
{
	if (!atomic_dec_and_test(&k->refcount))
		return 0;
	release(k);
	return 1;
}
