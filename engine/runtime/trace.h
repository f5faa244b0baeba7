/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Records that go into several trace arrays, with stack traces behind them. */
#pragma once
#include "runtime.h"

/* The frame at which a stack trace begins. */
struct kp_start { u64 ip, sp, bp; };
#define KP_HERE(start) \
	asm volatile("leaq 0(%%rip), %0\n\tmovq %%rsp, %1\n\tmovq %%rbp, %2" \
		     : "=r"((start).ip), "=r"((start).sp), "=r"((start).bp))

void kp_record_files(struct kp_event *e, u64 *record, u64 size, const struct kp_start *start,
		     const struct kp_start *here);
