/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What all suites need: functions to probe, of which the compiler must know nothing. */
#pragma once
#include <kunit/test.h>
#include <linux/kprobes.h>
#include <linux/module.h>

#define TARGET __attribute__((__noipa__))
#define KP_CLEAR(kp) do { (kp).addr = NULL; (kp).flags = 0; } while (0)

/* What the text at an address is. */
static inline u64 text_at(void *addr)
{
	return READ_ONCE(*(u64 *)addr);
}
