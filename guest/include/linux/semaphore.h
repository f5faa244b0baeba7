/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Counting semaphores: so many may have it at once, the others sleep. */
#pragma once
#include <linux/list.h>
#include <linux/spinlock.h>

struct semaphore {
	raw_spinlock_t lock;
	unsigned int count;
	struct list_head wait_list;
};
#define __SEMAPHORE_INITIALIZER(name, n) \
	{ __RAW_SPIN_LOCK_UNLOCKED((name).lock), n, LIST_HEAD_INIT((name).wait_list) }
#define DEFINE_SEMAPHORE(name) struct semaphore name = __SEMAPHORE_INITIALIZER(name, 1)
#define DECLARE_MUTEX(name) DEFINE_SEMAPHORE(name) /* its name until 2.6.36 */

static inline void sema_init(struct semaphore *sem, int val)
{
	*sem = (struct semaphore)__SEMAPHORE_INITIALIZER(*sem, val);
}
void down(struct semaphore *sem);
int __must_check down_interruptible(struct semaphore *sem);         /* -EINTR */
int __must_check down_killable(struct semaphore *sem);              /* -EINTR */
int __must_check down_trylock(struct semaphore *sem);               /* 0: it is ours */
int __must_check down_timeout(struct semaphore *sem, long jiffies); /* -ETIME */
void up(struct semaphore *sem);
