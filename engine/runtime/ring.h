/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A place for a record in the ring buffer of a CPU, and how the buffer notes its time. */
#pragma once
#include "runtime.h"

#define DELTA_BITS 27
#define TYPE_TIME_EXTEND 30
#define MAX_SMALL_DATA 112 /* 28 words */

/* Return a place for a record of size bytes, or 0. */
void *kp_ring_place(struct kp_ring *r, u64 size);
