/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/wait.h>

struct completion {
	unsigned int done;
	wait_queue_head_t wait;
};
#define COMPLETION_INITIALIZER(n) { 0, __WAIT_QUEUE_HEAD_INITIALIZER((n).wait) }
#define DECLARE_COMPLETION(n) struct completion n = COMPLETION_INITIALIZER(n)
#define DECLARE_COMPLETION_ONSTACK(n) DECLARE_COMPLETION(n)
static inline void init_completion(struct completion *x)
{
	x->done = 0;
	init_waitqueue_head(&x->wait);
}
static inline void reinit_completion(struct completion *x) { x->done = 0; }
void complete(struct completion *x);
void complete_all(struct completion *x);
void wait_for_completion(struct completion *x);
unsigned long wait_for_completion_timeout(struct completion *x, unsigned long timeout);
bool try_wait_for_completion(struct completion *x);
bool completion_done(struct completion *x);
