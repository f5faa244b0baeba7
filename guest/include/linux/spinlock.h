/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/atomic.h>
#include <linux/preempt.h>

typedef struct raw_spinlock { u32 locked; } raw_spinlock_t;
typedef struct spinlock { struct raw_spinlock rlock; } spinlock_t;
typedef struct {
	int cnt;
	raw_spinlock_t lock;
} rwlock_t;

#define __RAW_SPIN_LOCK_UNLOCKED(n) { 0 }
#define __SPIN_LOCK_UNLOCKED(n) { { 0 } }
#define DEFINE_RAW_SPINLOCK(n) raw_spinlock_t n = __RAW_SPIN_LOCK_UNLOCKED(n)
#define DEFINE_SPINLOCK(n) spinlock_t n = __SPIN_LOCK_UNLOCKED(n)

void _raw_spin_lock(raw_spinlock_t *lock);
int _raw_spin_trylock(raw_spinlock_t *lock);
void _raw_spin_unlock(raw_spinlock_t *lock);
void _raw_spin_lock_irq(raw_spinlock_t *lock);
void _raw_spin_unlock_irq(raw_spinlock_t *lock);
void _raw_spin_lock_bh(raw_spinlock_t *lock);
void _raw_spin_unlock_bh(raw_spinlock_t *lock);
unsigned long _raw_spin_lock_irqsave(raw_spinlock_t *lock);
void _raw_spin_unlock_irqrestore(raw_spinlock_t *lock, unsigned long flags);

#define raw_spin_lock_init(l) ((l)->locked = 0)
#define raw_spin_lock(l) _raw_spin_lock(l)
#define raw_spin_unlock(l) _raw_spin_unlock(l)
#define raw_spin_lock_irq(l) _raw_spin_lock_irq(l)
#define raw_spin_unlock_irq(l) _raw_spin_unlock_irq(l)
#define raw_spin_lock_irqsave(l, f) ((f) = _raw_spin_lock_irqsave(l))
#define raw_spin_unlock_irqrestore(l, f) _raw_spin_unlock_irqrestore(l, f)
#define spin_lock_init(l) raw_spin_lock_init(&(l)->rlock)
#define spin_lock(l) _raw_spin_lock(&(l)->rlock)
#define spin_trylock(l) _raw_spin_trylock(&(l)->rlock)
#define spin_unlock(l) _raw_spin_unlock(&(l)->rlock)
#define spin_lock_irq(l) _raw_spin_lock_irq(&(l)->rlock)
#define spin_unlock_irq(l) _raw_spin_unlock_irq(&(l)->rlock)
#define spin_lock_bh(l) _raw_spin_lock_bh(&(l)->rlock)
#define spin_unlock_bh(l) _raw_spin_unlock_bh(&(l)->rlock)
#define spin_lock_irqsave(l, f) ((f) = _raw_spin_lock_irqsave(&(l)->rlock))
#define spin_unlock_irqrestore(l, f) _raw_spin_unlock_irqrestore(&(l)->rlock, f)
#define spin_is_locked(l) ((l)->rlock.locked != 0)

#ifndef MODULE
#include <kpfs/cleanup.h>
DEFINE_GUARD(spinlock, spinlock_t, spin_lock(it), spin_unlock(it))
DEFINE_GUARD(spinlock_irq, spinlock_t, spin_lock_irq(it), spin_unlock_irq(it))
DEFINE_GUARD(spinlock_bh, spinlock_t, spin_lock_bh(it), spin_unlock_bh(it))
DEFINE_GUARD_FLAGS(spinlock_irqsave, spinlock_t, spin_lock_irqsave(it, flags),
		   spin_unlock_irqrestore(it, flags))
DEFINE_GUARD(raw_spinlock, raw_spinlock_t, raw_spin_lock(it), raw_spin_unlock(it))
DEFINE_GUARD(raw_spinlock_irq, raw_spinlock_t, raw_spin_lock_irq(it), raw_spin_unlock_irq(it))
DEFINE_GUARD_FLAGS(raw_spinlock_irqsave, raw_spinlock_t, raw_spin_lock_irqsave(it, flags),
		   raw_spin_unlock_irqrestore(it, flags))
#endif

void __local_bh_disable_ip(unsigned long ip, unsigned int cnt);
void __local_bh_enable_ip(unsigned long ip, unsigned int cnt);
#define local_bh_disable() __local_bh_disable_ip(0, SOFTIRQ_DISABLE_OFFSET)
#define local_bh_enable() __local_bh_enable_ip(0, SOFTIRQ_DISABLE_OFFSET)
