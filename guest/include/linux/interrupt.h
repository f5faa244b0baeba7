/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/preempt.h>

/* The softirqs that there are, with Linux's numbers. */
enum { TIMER_SOFTIRQ = 1, NET_RX_SOFTIRQ = 3, TASKLET_SOFTIRQ, NR_SOFTIRQS = 7 };
struct softirq_action { void (*action)(struct softirq_action *); };
void open_softirq(int nr, void (*action)(struct softirq_action *));
void raise_softirq(unsigned int nr);
void raise_softirq_irqoff(unsigned int nr);
void do_softirq(void);
void irq_enter_rcu(void);
void irq_exit_rcu(void);
void softirq_init(void);
#ifndef MODULE
static __always_inline int __guard_hardirq(void)
{
	irq_enter_rcu();
	return 0;
}
static __always_inline void __unguard_hardirq(int *unused) { irq_exit_rcu(); }
#endif

typedef enum { IRQ_NONE, IRQ_HANDLED } irqreturn_t;
typedef irqreturn_t (*irq_handler_t)(int irq, void *dev);
int request_irq(unsigned int irq, irq_handler_t handler, unsigned long flags, const char *name,
		void *dev);
const void *free_irq(unsigned int irq, void *dev);
struct tasklet_struct {
	struct tasklet_struct *next;
	unsigned long state;
	void (*callback)(struct tasklet_struct *);
};
void tasklet_setup(struct tasklet_struct *t, void (*fn)(struct tasklet_struct *));
void __tasklet_schedule(struct tasklet_struct *t);
static inline void tasklet_schedule(struct tasklet_struct *t) { __tasklet_schedule(t); }
