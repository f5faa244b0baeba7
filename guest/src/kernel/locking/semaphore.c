// SPDX-License-Identifier: GPL-2.0-or-later
/* Semaphores: waiting tasks are in a list, and up() hands over to the first of them. */
#include <linux/kernel.h>
#include <linux/sched.h>
#include <linux/semaphore.h>

struct semaphore_waiter {
	struct list_head list;
	struct task_struct *task;
	bool up;
};

static bool must_end(int state)
{
	if (state == TASK_INTERRUPTIBLE)
		return signal_pending(current);
	return state == TASK_KILLABLE && fatal_signal_pending(current);
}

/* Wait. The lock is held and interrupts are off, also when this returns. */
static int __down_common(struct semaphore *sem, int state, long timeout)
{
	struct semaphore_waiter waiter = { .task = current };
	int err = 0;

	list_add_tail(&waiter.list, &sem->wait_list);
	while (!waiter.up && !err) {
		if (must_end(state)) {
			err = -EINTR;
		} else if (timeout <= 0) {
			err = -ETIME;
		} else {
			__set_current_state(state & TASK_NORMAL);
			raw_spin_unlock_irq(&sem->lock);
			timeout = schedule_timeout(timeout);
			raw_spin_lock_irq(&sem->lock);
		}
	}
	list_del_init(&waiter.list);
	return err;
}

static int down_common(struct semaphore *sem, int state, long timeout)
{
	might_sleep();
	guard(raw_spinlock_irqsave)(&sem->lock);
	if (unlikely(sem->count == 0))
		return __down_common(sem, state, timeout);
	sem->count--;
	return 0;
}

void down(struct semaphore *sem)
{
	down_common(sem, TASK_UNINTERRUPTIBLE, MAX_SCHEDULE_TIMEOUT);
}

int down_interruptible(struct semaphore *sem)
{
	return down_common(sem, TASK_INTERRUPTIBLE, MAX_SCHEDULE_TIMEOUT);
}

int down_killable(struct semaphore *sem)
{
	return down_common(sem, TASK_KILLABLE, MAX_SCHEDULE_TIMEOUT);
}

int down_timeout(struct semaphore *sem, long timeout)
{
	return down_common(sem, TASK_UNINTERRUPTIBLE, timeout);
}

/* Return 1 if another task holds it: the opposite of spin_trylock(). */
int down_trylock(struct semaphore *sem)
{
	int taken;

	guard(raw_spinlock_irqsave)(&sem->lock);
	taken = sem->count > 0;
	sem->count -= taken;
	return !taken;
}

static noinline void __up(struct semaphore *sem)
{
	struct semaphore_waiter *waiter =
		list_first_entry(&sem->wait_list, struct semaphore_waiter, list);

	list_del_init(&waiter->list);
	waiter->up = true;
	wake_up_process(waiter->task);
}

void up(struct semaphore *sem)
{
	guard(raw_spinlock_irqsave)(&sem->lock);
	if (likely(list_empty(&sem->wait_list)))
		sem->count++;
	else
		__up(sem);
}
