// SPDX-License-Identifier: GPL-2.0-or-later
/* Chains of callbacks in order of priority. */
#include <linux/err.h>
#include <linux/kprobes.h>
#include <linux/notifier.h>

static noinline int notifier_chain_register(struct notifier_block **nl, struct notifier_block *n)
{
	for (; *nl; nl = &(*nl)->next) {
		if (*nl == n)
			return -EEXIST;
		if (n->priority > (*nl)->priority)
			break;
	}
	n->next = *nl;
	WRITE_ONCE(*nl, n);
	return 0;
}

static noinline int notifier_chain_unregister(struct notifier_block **nl, struct notifier_block *n)
{
	for (; *nl; nl = &(*nl)->next) {
		if (*nl != n)
			continue;
		WRITE_ONCE(*nl, n->next);
		return 0;
	}
	return -ENOENT;
}

static noinline int notifier_call_chain(struct notifier_block **nl, unsigned long val, void *v)
{
	struct notifier_block *nb = READ_ONCE(*nl), *next;
	int ret = NOTIFY_DONE;

	for (; nb; nb = next) {
		next = READ_ONCE(nb->next);
		ret = nb->notifier_call(nb, val, v);
		if (ret & NOTIFY_STOP_MASK)
			break;
	}
	return ret;
}
NOKPROBE_SYMBOL(notifier_call_chain);

int atomic_notifier_chain_register(struct atomic_notifier_head *nh, struct notifier_block *nb)
{
	guard(spinlock_irqsave)(&nh->lock);
	return notifier_chain_register(&nh->head, nb);
}

int atomic_notifier_chain_unregister(struct atomic_notifier_head *nh, struct notifier_block *nb)
{
	guard(spinlock_irqsave)(&nh->lock);
	return notifier_chain_unregister(&nh->head, nb);
}

int atomic_notifier_call_chain(struct atomic_notifier_head *nh, unsigned long val, void *v)
{
	return notifier_call_chain(&nh->head, val, v);
}
NOKPROBE_SYMBOL(atomic_notifier_call_chain);

int blocking_notifier_chain_register(struct blocking_notifier_head *nh, struct notifier_block *nb)
{
	guard(mutex)(&nh->rwsem);
	return notifier_chain_register(&nh->head, nb);
}

int blocking_notifier_chain_unregister(struct blocking_notifier_head *nh, struct notifier_block *nb)
{
	guard(mutex)(&nh->rwsem);
	return notifier_chain_unregister(&nh->head, nb);
}

int blocking_notifier_call_chain(struct blocking_notifier_head *nh, unsigned long val, void *v)
{
	guard(mutex)(&nh->rwsem);
	return notifier_call_chain(&nh->head, val, v);
}
