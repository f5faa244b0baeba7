/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/ktime.h>
#include <linux/rbtree.h>
#include <linux/spinlock.h>

enum hrtimer_restart { HRTIMER_NORESTART, HRTIMER_RESTART };
enum hrtimer_mode { HRTIMER_MODE_ABS, HRTIMER_MODE_REL };
struct timerqueue_node {
	struct rb_node node;
	ktime_t expires;
};
struct timerqueue_head { struct rb_root_cached rb_root; };
struct hrtimer_cpu_base;
struct hrtimer {
	struct timerqueue_node node;
	enum hrtimer_restart (*function)(struct hrtimer *);
	struct hrtimer_cpu_base *base;
	u8 state;
};
struct hrtimer_cpu_base {
	raw_spinlock_t lock;
	unsigned int cpu;
	struct timerqueue_head active;
	ktime_t expires_next;
	unsigned int nr_events;
	bool in_hrtirq;
};
struct task_struct;
struct hrtimer_sleeper {
	struct hrtimer timer;
	struct task_struct *task;
};
int schedule_hrtimeout_range(ktime_t *expires, u64 delta, const enum hrtimer_mode mode);

void hrtimer_init(struct hrtimer *timer, clockid_t clock, enum hrtimer_mode mode);
void hrtimer_start_range_ns(struct hrtimer *timer, ktime_t tim, u64 delta, enum hrtimer_mode mode);
#define hrtimer_start(t, tim, mode) hrtimer_start_range_ns(t, tim, 0, mode)
int hrtimer_try_to_cancel(struct hrtimer *timer);
int hrtimer_cancel(struct hrtimer *timer);
u64 hrtimer_forward(struct hrtimer *timer, ktime_t now, ktime_t interval);
static inline bool hrtimer_active(const struct hrtimer *timer) { return timer->state != 0; }
static inline ktime_t hrtimer_get_expires(const struct hrtimer *t) { return t->node.expires; }
static inline void hrtimer_set_expires(struct hrtimer *t, ktime_t e) { t->node.expires = e; }
void hrtimer_interrupt(void);
void hrtimers_init(void);
void tick_program_event(ktime_t expires);
