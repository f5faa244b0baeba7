/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/sched.h>
void __rcu_read_lock(void);
void __rcu_read_unlock(void);
#define rcu_read_lock() __rcu_read_lock()
#define rcu_read_unlock() __rcu_read_unlock()
#define rcu_dereference(p) READ_ONCE(p)
#define rcu_assign_pointer(p, v) smp_store_release(&(p), v)
void call_rcu(struct callback_head *head, void (*func)(struct callback_head *));
void synchronize_rcu(void);
void rcu_init(void);
void exit_rcu(void);
#define kfree_rcu_cb(p, f) call_rcu(&(p)->rcu, f)
