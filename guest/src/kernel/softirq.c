// SPDX-License-Identifier: GPL-2.0-or-later
/* Softirqs: work raised by interrupts and run on their way out. */
#include <linux/interrupt.h>
#include <linux/kprobes.h>
#include <linux/rescue.h>
#include <linux/tick.h>

static struct softirq_action softirq_vec[NR_SOFTIRQS];
static DEFINE_PER_CPU(u32, softirq_pending);
struct tasklet_head { struct tasklet_struct *head, **tail; };
static DEFINE_PER_CPU(struct tasklet_head, tasklet_vec);
#define MAX_SOFTIRQ_RESTART 10

noinline void open_softirq(int nr, void (*action)(struct softirq_action *))
{
	softirq_vec[nr].action = action;
}

noinline void __raise_softirq_irqoff(unsigned int nr)
{
	*this_cpu_ptr(&softirq_pending) |= 1u << nr;
}

void raise_softirq_irqoff(unsigned int nr)
{
	__raise_softirq_irqoff(nr);
	if (!in_interrupt())
		do_softirq();
}

void raise_softirq(unsigned int nr)
{
	unsigned long flags;

	local_irq_save(flags);
	__raise_softirq_irqoff(nr);
	local_irq_restore(flags);
	if (!in_interrupt() && !irqs_disabled())
		do_softirq();
}

/* Run what is pending; interrupts are off on entry and exit. */
asmlinkage __visible void __section(".softirqentry.text") __do_softirq(void)
{
	int max_restart = MAX_SOFTIRQ_RESTART;
	u32 pending;

	__preempt_count_add(SOFTIRQ_OFFSET);
	while ((pending = *this_cpu_ptr(&softirq_pending)) && max_restart--) {
		*this_cpu_ptr(&softirq_pending) = 0;
		local_irq_enable();
		while (pending) {
			struct softirq_action *h = &softirq_vec[__builtin_ctz(pending)];

			pending &= pending - 1;
			h->action(h);
		}
		local_irq_disable();
	}
	__preempt_count_sub(SOFTIRQ_OFFSET);
}

noinline void do_softirq(void)
{
	if (in_interrupt())
		return;
	guard(irqs)();
	if (*this_cpu_ptr(&softirq_pending))
		__do_softirq();
}

static void invoke_softirq(void)
{
	__do_softirq();
}

void irq_enter_rcu(void)
{
	__preempt_count_add(HARDIRQ_OFFSET);
	tick_irq_enter();
}

void irq_exit_rcu(void)
{
	__preempt_count_sub(HARDIRQ_OFFSET);
	if (!in_interrupt() && *this_cpu_ptr(&softirq_pending))
		invoke_softirq();
}

void __local_bh_disable_ip(unsigned long ip, unsigned int cnt)
{
	__preempt_count_add(cnt);
	barrier();
}
NOKPROBE_SYMBOL(__local_bh_disable_ip);

noinline void __local_bh_enable_ip(unsigned long ip, unsigned int cnt)
{
	__preempt_count_sub(cnt - 1);
	if (unlikely(!in_interrupt() && *this_cpu_ptr(&softirq_pending)))
		do_softirq();
	preempt_enable();
}
NOKPROBE_SYMBOL(__local_bh_enable_ip);

void tasklet_setup(struct tasklet_struct *t, void (*fn)(struct tasklet_struct *))
{
	t->next = NULL;
	t->state = 0;
	t->callback = fn;
}

void __tasklet_schedule(struct tasklet_struct *t)
{
	struct tasklet_head *head = this_cpu_ptr(&tasklet_vec);

	guard(irqs)();
	if (t->state)
		return;
	t->state = 1;
	t->next = NULL;
	*head->tail = t;
	head->tail = &t->next;
	__raise_softirq_irqoff(TASKLET_SOFTIRQ);
}

static void tasklet_action(struct softirq_action *a)
{
	struct tasklet_head *head = this_cpu_ptr(&tasklet_vec);
	struct tasklet_struct *list, *t;

	local_irq_disable();
	list = head->head;
	head->head = NULL;
	head->tail = &head->head;
	local_irq_enable();
	while ((t = list)) {
		list = t->next;
		t->state = 0;
		call_rescued(this_cpu_ptr(&irq_rescue), t->callback(t));
	}
}

void __init softirq_init(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct tasklet_head *head = &per_cpu(tasklet_vec, cpu);

		head->tail = &per_cpu(tasklet_vec, cpu).head;
	}
	open_softirq(TASKLET_SOFTIRQ, tasklet_action);
}
