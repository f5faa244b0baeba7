/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/list.h>

struct timer_base;
struct timer_list {
	struct list_head entry;
	unsigned long expires;
	void (*function)(struct timer_list *);
	u32 flags;
	struct timer_base *base;
};
#define TIMER_DEFERRABLE 1
void init_timer_key(struct timer_list *t, void (*fn)(struct timer_list *), unsigned int flags);
#define timer_setup(t, fn, flags) init_timer_key(t, fn, flags)
#define timer_setup_on_stack(t, fn, flags) init_timer_key(t, fn, flags)
#define DEFINE_TIMER(n, fn) struct timer_list n = { .entry = { NULL, NULL }, .function = fn }
#define from_timer(v, t, field) container_of(t, __typeof__(*v), field)
static inline int timer_pending(const struct timer_list *t) { return t->entry.next != NULL; }
void add_timer(struct timer_list *timer);
void add_timer_on(struct timer_list *timer, int cpu);
int mod_timer(struct timer_list *timer, unsigned long expires);
int timer_delete(struct timer_list *timer);
int timer_delete_sync(struct timer_list *timer);
static inline int del_timer(struct timer_list *timer) { return timer_delete(timer); }
static inline int del_timer_sync(struct timer_list *timer) { return timer_delete_sync(timer); }
unsigned long get_next_timer_interrupt(void);
void run_local_timers(void);
void init_timers(void);
void msleep(unsigned int msecs);
unsigned long msleep_interruptible(unsigned int msecs);
void usleep_range_state(unsigned long min, unsigned long max, unsigned int state);
