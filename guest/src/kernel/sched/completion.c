// SPDX-License-Identifier: GPL-2.0-or-later
/* Completions: "wait until that is done". */
#include <linux/completion.h>
#include <linux/kernel.h>

void complete(struct completion *x)
{
	x->done += x->done != UINT_MAX;
	wake_up(&x->wait);
}

void complete_all(struct completion *x)
{
	x->done = UINT_MAX;
	wake_up_all(&x->wait);
}

static noinline long wait_for_common(struct completion *x, long timeout, int state)
{
	DEFINE_WAIT(wait);

	for (;;) {
		prepare_to_wait_exclusive(&x->wait, &wait, state);
		if (x->done || !timeout)
			break;
		timeout = schedule_timeout(timeout);
	}
	finish_wait(&x->wait, &wait);
	if (!x->done)
		return 0;
	if (x->done != UINT_MAX)
		x->done--;
	return timeout ?: 1;
}

void wait_for_completion(struct completion *x)
{
	wait_for_common(x, MAX_SCHEDULE_TIMEOUT, TASK_UNINTERRUPTIBLE);
}

unsigned long wait_for_completion_timeout(struct completion *x, unsigned long timeout)
{
	return wait_for_common(x, timeout, TASK_UNINTERRUPTIBLE);
}

bool try_wait_for_completion(struct completion *x)
{
	if (!x->done)
		return false;
	if (x->done != UINT_MAX)
		x->done--;
	return true;
}

bool completion_done(struct completion *x)
{
	return READ_ONCE(x->done) != 0;
}
