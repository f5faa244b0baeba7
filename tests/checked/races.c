/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A device whose calls race, one error for each number of ioctl(). With MENDED there is none.
 *
 * tests/programs/races.c uses it by two threads.
 */
#include "kernel.h"

#define MINOR 255 /* any */
#define ENOMEM 12

struct mutex { long words[16]; };
struct timer {
	long words[3];
	void (*function)(struct timer *);
	long flags;
};
struct file_operations {
	char before_ioctl[IOCTL_AT];
	long (*ioctl)(void *file, unsigned int cmd, unsigned long arg);
	char before_open[OPEN_AT - IOCTL_AT - 8];
	int (*open)(void *inode, void *file);
	char before_release[RELEASE_AT - OPEN_AT - 8];
	int (*release)(void *inode, void *file);
	char rest[256];
};
struct miscdevice {
	int minor;
	const char *name;
	const struct file_operations *fops;
	long words[7];
	unsigned short mode;
	char rest[64];
};

int misc_register(struct miscdevice *dev);
void misc_deregister(struct miscdevice *dev);
void MUTEX_INIT(struct mutex *lock, const char *name, void *key);
void mutex_lock(struct mutex *lock);
void mutex_unlock(struct mutex *lock);
void TIMER_INIT(struct timer *t, void (*function)(struct timer *), unsigned int flags,
		const char *name, void *key);
int mod_timer(struct timer *t, unsigned long expires);
int TIMER_DELETE(struct timer *t);
int timer_delete_sync(struct timer *t);
extern unsigned long jiffies;

static char key[8];
static struct mutex m, a, b, c;
static unsigned int spin, irq_spin;

#define LOCK() ({ if (WRONG(0, 1)) mutex_lock(&m); })
#define UNLOCK() ({ if (WRONG(0, 1)) mutex_unlock(&m); })

/* A load and its store are apart. */
static unsigned long lost_count;

static noinline void lost(void)
{
	unsigned long value;

	LOCK();
	value = lost_count;
	HIDE(value);
	lost_count = value + 1;
	UNLOCK();
}

/* One instruction is a load and a store, too, if an architecture has such. */
static unsigned long torn_count;

static noinline void torn(void)
{
#ifdef __aarch64__
	WRONG((*(volatile unsigned long *)&torn_count)++,
	      __atomic_add_fetch(&torn_count, 1, __ATOMIC_SEQ_CST));
#elif defined(MENDED)
	asm volatile("lock addq $1, %0" : "+m"(torn_count));
#else
	asm volatile("addq $1, %0" : "+m"(torn_count));
#endif
}

/* Two tasks see that there is no buffer. */
static char *buffer;

static noinline int check(unsigned long arg)
{
	LOCK();
	if (!buffer) {
		char *made = __kmalloc(128, GFP_KERNEL);

		if (made)
			memset(made, 0, 128);
		buffer = made;
	}
	if (buffer)
		buffer[arg] = 1;
	UNLOCK();
	return 0;
}

/* A flag says that there is something, before that is there. */
static unsigned long is_ready, ready_value;

static noinline int publish(unsigned long arg)
{
	unsigned long bad = 0;

	LOCK();
	if (!arg) {
#ifdef MENDED
		ready_value = 5;
#endif
		*(volatile unsigned long *)&is_ready = 1;
		ONLY_WRONG(*(volatile unsigned long *)&ready_value = 5);
	} else if (is_ready) {
		bad = ready_value != 5;
	}
	UNLOCK();
	return bad;
}

/* The kernel writes what the module reads twice. */
static unsigned long shared_value;

static noinline int elsewhere(unsigned long arg, unsigned long user)
{
	unsigned long bad = 0, first;

	LOCK();
	if (!arg) {
		bad = _copy_from_user(&shared_value, (void *)user, 8);
	} else {
		first = shared_value;
		asm volatile("" : : : "memory");
		bad = shared_value != first;
	}
	UNLOCK();
	return bad;
}

/* An interrupt comes between a load and its store. */
static unsigned long ticks_count, ticks_wanted, is_ticking;
static struct timer ticker;

static void count_tick(void)
{
	unsigned long flags = 0, value;

	if (WRONG(0, 1))
		flags = _raw_spin_lock_irqsave(&irq_spin);
	value = ticks_count;
	HIDE(value);
	ticks_count = value + 1;
	__atomic_add_fetch(&ticks_wanted, 1, __ATOMIC_SEQ_CST);
	if (WRONG(0, 1))
		_raw_spin_unlock_irqrestore(&irq_spin, flags);
}

static void tick(struct timer *t)
{
	(void)t;
	count_tick();
	__atomic_store_n(&is_ticking, 0, __ATOMIC_SEQ_CST);
}

static noinline void ticks(void)
{
	if (!__atomic_exchange_n(&is_ticking, 1, __ATOMIC_SEQ_CST))
		mod_timer(&ticker, *(volatile unsigned long *)&jiffies + 1);
	for (int i = 0; i < 4; i++)
		count_tick();
}

static noinline long missing_ticks(void)
{
	unsigned long flags = _raw_spin_lock_irqsave(&irq_spin);
	long missing = ticks_count - ticks_wanted;

	_raw_spin_unlock_irqrestore(&irq_spin, flags);
	return missing;
}

/* A lock is taken by a timer, too, that may interrupt who has it. */
static unsigned long locked_count;
static struct timer locker;

static void take_in_timer(struct timer *t)
{
	(void)t;
	_raw_spin_lock(&spin);
	locked_count++;
	_raw_spin_unlock(&spin);
}

static noinline void lock_of_timer(void)
{
	unsigned long flags = 0;

	mod_timer(&locker, *(volatile unsigned long *)&jiffies + 1);
	if (WRONG(0, 1))
		flags = _raw_spin_lock_irqsave(&spin);
	else
		_raw_spin_lock(&spin);
	locked_count++;
	if (WRONG(0, 1))
		_raw_spin_unlock_irqrestore(&spin, flags);
	else
		_raw_spin_unlock(&spin);
}

/* Three locks in a circle, by three tasks. */
static unsigned long x;

static noinline void pair(struct mutex *first, struct mutex *second)
{
	mutex_lock(first);
	__atomic_add_fetch(&x, 1, __ATOMIC_SEQ_CST);
	mutex_lock(second);
	mutex_unlock(second);
	mutex_unlock(first);
}

static noinline void two_locks(unsigned long arg)
{
	pair(WRONG(arg ? &b : &a, &a), WRONG(arg ? &a : &b, &b));
}

static noinline void three_locks(unsigned long arg)
{
	if (arg == 0)
		pair(&a, &b);
	else if (arg == 1)
		pair(&b, &c);
	else
		pair(WRONG(&c, &a), WRONG(&a, &c));
}

/* Two tasks spin, each for the lock that the other one has. */
static unsigned int spin_a, spin_b;

static noinline void spins(unsigned long arg)
{
	unsigned int *first = arg ? WRONG(&spin_b, &spin_a) : &spin_a;
	unsigned int *second = first == &spin_a ? &spin_b : &spin_a;

	_raw_spin_lock(first);
	__atomic_add_fetch(&x, 1, __ATOMIC_SEQ_CST);
	_raw_spin_lock(second);
	_raw_spin_unlock(second);
	_raw_spin_unlock(first);
}

/* It may sleep under a spinlock, and does not. */
static noinline void sleeps(void)
{
	unsigned long flags = _raw_spin_lock_irqsave(&irq_spin);

	ONLY_WRONG(mutex_lock(&m));
	ONLY_WRONG(mutex_unlock(&m));
	_raw_spin_unlock_irqrestore(&irq_spin, flags);
}

/* The compiler loads before a branch what only one side of it uses, which races if that runs. */
static unsigned long hoisted;

static noinline unsigned long hoist(unsigned long arg)
{
	unsigned long value;

	load(value, hoisted);
	if (arg == WRONG(1, 2))
		return value & 1;
	mutex_lock(&m);
	hoisted += 2;
	mutex_unlock(&m);
	return 0;
}

/* A timer is still there when what it uses is freed. */
struct session {
	struct timer timer;
	unsigned long magic;
	unsigned long *stats;
};

static unsigned long bad_sessions;

static void session_tick(struct timer *t)
{
	struct session *s = (struct session *)t;
	unsigned long *stats = s->stats;

	for (int i = 0; i < 4; i++)
		((volatile unsigned long *)stats)[i]++;
	if (*(volatile unsigned long *)&s->magic != 0x5e55)
		bad_sessions++;
}

/* An allocation that fails is not looked at. */
static noinline void fails(void)
{
	volatile char *p = __kmalloc(80, GFP_KERNEL);

	HIDE(p);
	if (WRONG(1, p))
		*p = 1;
	kfree((void *)p);
}

/* A function that is called by its address does not begin with endbr64. */
void target(void);
asm(".pushsection .text; .type target, @function; target: "
#if defined(MENDED) && defined(__x86_64__)
    "endbr64;"
#endif
    "ret; "
#ifdef __x86_64__
    "int3; "
#endif
    ".size target, . - target; .popsection");

static noinline void lands(void)
{
	void (*function)(void) = target;

	HIDE(function);
	function();
}

static struct session **session_of(void *file)
{
	return (struct session **)((char *)file + PRIVATE_AT);
}

static int begin_session(void *file)
{
	struct session *s = __kmalloc(sizeof(*s), GFP_KERNEL | 0x100);

	if (!s)
		return -ENOMEM;
	s->stats = __kmalloc(64, GFP_KERNEL | 0x100);
	if (!s->stats) {
		kfree(s);
		return -ENOMEM;
	}
	s->magic = 0x5e55;
	TIMER_INIT(&s->timer, session_tick, 0, "s", key);
	mod_timer(&s->timer, *(volatile unsigned long *)&jiffies + 2);
	*session_of(file) = s;
	return 0;
}

static int open_device(void *inode, void *file)
{
	(void)inode;
	*session_of(file) = NULL;
	return 0;
}

static int release_session(void *inode, void *file)
{
	struct session *s = *session_of(file);

	(void)inode;
	if (!s)
		return 0;
#ifdef MENDED
	timer_delete_sync(&s->timer);
#else
	TIMER_DELETE(&s->timer);
#endif
	s->magic = 0xdead;
	kfree(s->stats);
	kfree(s);
	return 0;
}

static long call(void *file, unsigned int cmd, unsigned long arg)
{
	unsigned long user[2];

	switch (cmd) {
	case 100: lost(); return 0;
	case 101: torn(); return 0;
	case 102: return check(arg);
	case 103: return publish(arg);
	case 104:
		if (_copy_from_user(user, (void *)arg, 16))
			return -ENOMEM;
		return elsewhere(user[0], user[1]);
	case 105: ticks(); return 0;
	case 106: lock_of_timer(); return 0;
	case 107: two_locks(arg); return 0;
	case 108: three_locks(arg); return 0;
	case 109: sleeps(); return 0;
	case 110: return hoist(arg);
	case 111: return begin_session(file);
	case 112: fails(); return 0;
	case 113: lands(); return 0;
	case 114: spins(arg); return 0;
	case 200: return lost_count;
	case 201: return torn_count;
	case 202: return buffer ? buffer[arg] : -1;
	case 205: return missing_ticks();
	case 211: return bad_sessions;
	}
	return 0;
}

static const struct file_operations fops = {
	.ioctl = call,
	.open = open_device,
	.release = release_session,
};
static struct miscdevice device = { .minor = MINOR, .name = "races", .fops = &fops, .mode = 0666 };

static int begin(void)
{
	MUTEX_INIT(&m, "m", key);
	MUTEX_INIT(&a, "a", key);
	MUTEX_INIT(&b, "b", key);
	MUTEX_INIT(&c, "c", key);
	TIMER_INIT(&ticker, tick, 0, "t", key);
	TIMER_INIT(&locker, take_in_timer, 0, "l", key);
	return misc_register(&device);
}

static void finish(void)
{
	misc_deregister(&device);
	timer_delete_sync(&ticker);
	timer_delete_sync(&locker);
	kfree(buffer);
}
