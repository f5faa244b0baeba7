/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/sched.h>
void __rcu_read_lock(void);
void __rcu_read_unlock(void);
#define rcu_read_lock() __rcu_read_lock()
#define rcu_read_unlock() __rcu_read_unlock()
#define rcu_dereference(p) READ_ONCE(p)
#define rcu_dereference_raw(p) READ_ONCE(p)
#define rcu_dereference_check(p, condition) READ_ONCE(p)
#define rcu_dereference_protected(p, condition) (p)
#define rcu_access_pointer(p) READ_ONCE(p)
#define RCU_INIT_POINTER(p, v) WRITE_ONCE(p, v)
#define rcu_assign_pointer(p, v) smp_store_release(&(p), v)
void call_rcu(struct callback_head *head, void (*func)(struct callback_head *));
void synchronize_rcu(void);
void rcu_init(void);
void exit_rcu(void);
/* Free what p points at after a grace period; member is the rcu_head in it. */
#define kfree_rcu(p, member) \
	kvfree_call_rcu(&(p)->member, \
			(void (*)(struct callback_head *))offsetof(__typeof__(*(p)), member))
void kvfree_call_rcu(struct callback_head *head, void (*offset)(struct callback_head *));
