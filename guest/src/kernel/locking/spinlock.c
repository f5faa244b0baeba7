// SPDX-License-Identifier: GPL-2.0-or-later
/* Spin locks. CPUs take turns, so a waiter lets the next one run. */
#include <kpfs/hypercall.h>
#include <linux/sched.h>

static noinline notrace void queued_spin_lock_slowpath(raw_spinlock_t *lock)
{
	while (xchg(&lock->locked, 1))
		kpfs_yield();
}

static __always_inline void do_raw_spin_lock(raw_spinlock_t *lock)
{
	if (unlikely(xchg(&lock->locked, 1)))
		queued_spin_lock_slowpath(lock);
}

noinline void _raw_spin_lock(raw_spinlock_t *lock)
{
	preempt_disable();
	do_raw_spin_lock(lock);
}

int _raw_spin_trylock(raw_spinlock_t *lock)
{
	preempt_disable();
	if (!xchg(&lock->locked, 1))
		return 1;
	preempt_enable();
	return 0;
}

noinline void _raw_spin_unlock(raw_spinlock_t *lock)
{
	smp_store_release(&lock->locked, 0);
	preempt_enable();
}

noinline void _raw_spin_lock_irq(raw_spinlock_t *lock)
{
	local_irq_disable();
	preempt_disable();
	do_raw_spin_lock(lock);
}

noinline void _raw_spin_unlock_irq(raw_spinlock_t *lock)
{
	smp_store_release(&lock->locked, 0);
	local_irq_enable();
	preempt_enable();
}

unsigned long _raw_spin_lock_irqsave(raw_spinlock_t *lock)
{
	unsigned long flags;

	local_irq_save(flags);
	preempt_disable();
	do_raw_spin_lock(lock);
	return flags;
}

void _raw_spin_unlock_irqrestore(raw_spinlock_t *lock, unsigned long flags)
{
	smp_store_release(&lock->locked, 0);
	local_irq_restore(flags);
	preempt_enable();
}

void _raw_spin_lock_bh(raw_spinlock_t *lock)
{
	__local_bh_disable_ip(_RET_IP_, SOFTIRQ_DISABLE_OFFSET);
	do_raw_spin_lock(lock);
}

void _raw_spin_unlock_bh(raw_spinlock_t *lock)
{
	smp_store_release(&lock->locked, 0);
	__local_bh_enable_ip(_RET_IP_, SOFTIRQ_DISABLE_OFFSET);
}

/* Readers and writers of the task list: held for short, so one lock does. */
void read_lock(rwlock_t *l)
{
	_raw_spin_lock(&l->lock);
}

void read_unlock(rwlock_t *l)
{
	_raw_spin_unlock(&l->lock);
}

void write_lock_irq(rwlock_t *l)
{
	_raw_spin_lock_irq(&l->lock);
}

void write_unlock_irq(rwlock_t *l)
{
	_raw_spin_unlock_irq(&l->lock);
}
