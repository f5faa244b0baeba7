/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Errors of locks, one in each function. With MENDED there is none. */
#include "kernel.h"

struct mutex { long words[16]; };

void MUTEX_INIT(struct mutex *lock, const char *name, void *key);
void mutex_lock(struct mutex *lock);
int mutex_trylock(struct mutex *lock);
void mutex_unlock(struct mutex *lock);
void msleep(unsigned int ms);

static struct mutex m[8], outer;
static unsigned int spin, other_spin;
static char key[8];

static noinline void pair(struct mutex *first, struct mutex *second)
{
	mutex_lock(first);
	mutex_lock(second);
	mutex_unlock(second);
	mutex_unlock(first);
}

static noinline void two_locks(void)
{
	pair(&m[0], &m[1]);
	mutex_lock(WRONG(&m[1], &m[0]));
	mutex_lock(WRONG(&m[0], &m[1]));
	mutex_unlock(&m[0]);
	mutex_unlock(&m[1]);
}

static noinline void three_locks(void)
{
	pair(&m[2], &m[3]);
	pair(&m[3], &m[4]);
	mutex_lock(WRONG(&m[4], &m[2]));
	mutex_lock(WRONG(&m[2], &m[4]));
	mutex_unlock(&m[2]);
	mutex_unlock(&m[4]);
}

/* No error: the outer lock keeps the two orders apart. */
static noinline void under_outer(void)
{
	mutex_lock(&outer);
	pair(&m[5], &m[6]);
	pair(&m[6], &m[5]);
	mutex_unlock(&outer);
}

/* No error: nobody waits for a lock that is only tried. */
static noinline void tried(void)
{
	pair(&m[5], &m[7]);
	mutex_lock(&m[7]);
	if (mutex_trylock(&m[5]))
		mutex_unlock(&m[5]);
	mutex_unlock(&m[7]);
}

static noinline void sleep_under_spinlock(void)
{
	unsigned long flags = _raw_spin_lock_irqsave(&spin);

	ONLY_WRONG(kfree(__kmalloc(8, GFP_KERNEL)));
	_raw_spin_unlock_irqrestore(&spin, flags);
	kfree(__kmalloc(8, GFP_KERNEL));
}

static noinline void mutex_without_interrupts(void)
{
	unsigned long flags;

	without_interrupts(flags);
	ONLY_WRONG(mutex_lock(&m[0]));
	with_interrupts(flags);
	ONLY_WRONG(mutex_unlock(&m[0]));
}

static int begin(void)
{
	for (int i = 0; i < 8; i++)
		MUTEX_INIT(&m[i], "m", key);
	MUTEX_INIT(&outer, "outer", key);
	two_locks();
	three_locks();
	under_outer();
	tried();
	sleep_under_spinlock();
	mutex_without_interrupts();
	msleep(1);
	return 0;
}

static void finish(void) {}
