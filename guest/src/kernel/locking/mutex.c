// SPDX-License-Identifier: GPL-2.0-or-later
/* Mutexes: a word with the owner, and a list of waiting tasks. */
#include <linux/mutex.h>
#include <linux/kernel.h>
#include <linux/sched.h>

struct mutex_waiter {
	struct list_head list;
	struct task_struct *task;
};

void __mutex_init(struct mutex *lock)
{
	atomic_long_set(&lock->owner, 0);
	spin_lock_init(&lock->wait_lock);
	INIT_LIST_HEAD(&lock->wait_list);
}

static __always_inline bool __mutex_trylock_fast(struct mutex *lock)
{
	return atomic_long_cmpxchg(&lock->owner, 0, (long)current) == 0;
}

static void __mutex_add_waiter(struct mutex *lock, struct mutex_waiter *waiter)
{
	list_add_tail(&waiter->list, &lock->wait_list);
}

static void __mutex_remove_waiter(struct mutex *lock, struct mutex_waiter *waiter)
{
	list_del(&waiter->list);
}

static noinline void __mutex_lock_slowpath(struct mutex *lock)
{
	struct mutex_waiter waiter = { .task = current };

	spin_lock(&lock->wait_lock);
	__mutex_add_waiter(lock, &waiter);
	for (;;) {
		set_current_state(TASK_UNINTERRUPTIBLE);
		if (__mutex_trylock_fast(lock))
			break;
		spin_unlock(&lock->wait_lock);
		schedule();
		spin_lock(&lock->wait_lock);
	}
	__set_current_state(TASK_RUNNING);
	__mutex_remove_waiter(lock, &waiter);
	spin_unlock(&lock->wait_lock);
}

void mutex_lock(struct mutex *lock)
{
	might_sleep();
	if (!__mutex_trylock_fast(lock))
		__mutex_lock_slowpath(lock);
}

int mutex_trylock(struct mutex *lock)
{
	return __mutex_trylock_fast(lock);
}

static noinline void __mutex_unlock_slowpath(struct mutex *lock)
{
	struct task_struct *next = NULL;

	guard(spinlock)(&lock->wait_lock);
	if (!list_empty(&lock->wait_list))
		next = list_first_entry(&lock->wait_list, struct mutex_waiter, list)->task;
	if (next)
		wake_up_process(next);
}

void mutex_unlock(struct mutex *lock)
{
	atomic_long_set(&lock->owner, 0);
	if (unlikely(!list_empty(&lock->wait_list)))
		__mutex_unlock_slowpath(lock);
}

bool mutex_is_locked(struct mutex *lock)
{
	return atomic_long_read(&lock->owner) != 0;
}
