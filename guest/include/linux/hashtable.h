/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Tables of lists, whose number is a power of two. */
#pragma once
#include <linux/hash.h>
#include <linux/kernel.h>
#include <linux/rculist.h>

#define DEFINE_HASHTABLE(name, bits) struct hlist_head name[1 << (bits)] = {}
#define DECLARE_HASHTABLE(name, bits) struct hlist_head name[1 << (bits)]
#define HASH_SIZE(name) ARRAY_SIZE(name)
#define HASH_BITS(name) (63 - __builtin_clzl(HASH_SIZE(name)))
#define hash_bucket(name, key) \
	(&(name)[sizeof(key) <= 4 ? hash_32(key, HASH_BITS(name)) : hash_64(key, HASH_BITS(name))])
#define hash_init(name) memset(name, 0, sizeof(name))
#define hash_add(name, node, key) hlist_add_head(node, hash_bucket(name, key))
#define hash_add_rcu(name, node, key) hlist_add_head_rcu(node, hash_bucket(name, key))
#define hash_del(node) hlist_del_init(node)
#define hash_del_rcu(node) hlist_del_rcu(node)
#define hash_hashed(node) (!hlist_unhashed(node))
#define hash_empty(name) ({ \
	bool __empty = true; \
	for (unsigned int __i = 0; __i < HASH_SIZE(name); __i++) \
		__empty = __empty && hlist_empty(&(name)[__i]); \
	__empty; })
#define hash_for_each(name, bkt, obj, member) \
	for ((bkt) = 0; (bkt) < HASH_SIZE(name); (bkt)++) \
		hlist_for_each_entry(obj, &(name)[bkt], member)
#define hash_for_each_safe(name, bkt, tmp, obj, member) \
	for ((bkt) = 0; (bkt) < HASH_SIZE(name); (bkt)++) \
		hlist_for_each_entry_safe(obj, tmp, &(name)[bkt], member)
#define hash_for_each_possible(name, obj, member, key) \
	hlist_for_each_entry(obj, hash_bucket(name, key), member)
#define hash_for_each_possible_rcu(name, obj, member, key) \
	hlist_for_each_entry_rcu(obj, hash_bucket(name, key), member)
#define hash_for_each_possible_safe(name, obj, tmp, member, key) \
	hlist_for_each_entry_safe(obj, tmp, hash_bucket(name, key), member)
