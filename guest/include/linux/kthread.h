/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/sched.h>
extern pid_t kthreadd_task_pid;
int kthreadd(void *unused);
struct task_struct *kthread_create_on_cpu(int (*fn)(void *), void *data, int cpu,
					  const char *namefmt);
struct task_struct *kthread_create_on_node(int (*fn)(void *), void *data, int node,
					   const char *namefmt, ...) __printf(4, 5);
#define kthread_create(fn, data, namefmt, ...) kthread_create_on_node(fn, data, -1, namefmt, ##__VA_ARGS__)
#define kthread_run(fn, data, namefmt, ...) ({ \
	struct task_struct *__k = kthread_create(fn, data, namefmt, ##__VA_ARGS__); \
	if (!IS_ERR(__k)) \
		wake_up_process(__k); \
	__k; })
bool kthread_should_stop(void);
int kthread_stop(struct task_struct *k);
struct completion;
void kthread_complete_and_exit(struct completion *comp, long code) __noreturn;
void kthread_bind(struct task_struct *k, unsigned int cpu);
