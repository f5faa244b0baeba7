/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/spinlock.h>
#include <linux/list.h>
struct task_struct;
struct mutex {
	atomic_long_t owner;
	spinlock_t wait_lock;
	struct list_head wait_list;
};
#define __MUTEX_INITIALIZER(n) { ATOMIC_LONG_INIT(0), __SPIN_LOCK_UNLOCKED(n), LIST_HEAD_INIT((n).wait_list) }
#define DEFINE_MUTEX(n) struct mutex n = __MUTEX_INITIALIZER(n)
void __mutex_init(struct mutex *lock);
#define mutex_init(l) __mutex_init(l)
void mutex_lock(struct mutex *lock);
int mutex_trylock(struct mutex *lock);
void mutex_unlock(struct mutex *lock);
bool mutex_is_locked(struct mutex *lock);
#ifndef MODULE
#include <kpfs/cleanup.h>
DEFINE_GUARD(mutex, struct mutex, mutex_lock(it), mutex_unlock(it))
#endif
