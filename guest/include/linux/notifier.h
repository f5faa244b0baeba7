/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/mutex.h>

struct notifier_block;
typedef int (*notifier_fn_t)(struct notifier_block *nb, unsigned long action, void *data);
struct notifier_block {
	notifier_fn_t notifier_call;
	struct notifier_block *next;
	int priority;
};
struct atomic_notifier_head {
	spinlock_t lock;
	struct notifier_block *head;
};
struct blocking_notifier_head {
	struct mutex rwsem;
	struct notifier_block *head;
};
#define ATOMIC_NOTIFIER_HEAD(n) struct atomic_notifier_head n = { __SPIN_LOCK_UNLOCKED(n), NULL }
#define BLOCKING_NOTIFIER_HEAD(n) struct blocking_notifier_head n = { __MUTEX_INITIALIZER((n).rwsem), NULL }
#define NOTIFY_DONE 0
#define NOTIFY_OK 1
#define NOTIFY_STOP_MASK 0x8000
#define NOTIFY_BAD (NOTIFY_STOP_MASK | 2)
#define NOTIFY_STOP (NOTIFY_OK | NOTIFY_STOP_MASK)
int atomic_notifier_chain_register(struct atomic_notifier_head *nh, struct notifier_block *nb);
int atomic_notifier_chain_unregister(struct atomic_notifier_head *nh, struct notifier_block *nb);
int atomic_notifier_call_chain(struct atomic_notifier_head *nh, unsigned long val, void *v);
int blocking_notifier_chain_register(struct blocking_notifier_head *nh, struct notifier_block *nb);
int blocking_notifier_chain_unregister(struct blocking_notifier_head *nh,
				       struct notifier_block *nb);
int blocking_notifier_call_chain(struct blocking_notifier_head *nh, unsigned long val, void *v);
