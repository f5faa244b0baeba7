/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* libunicorn's floating-point arithmetic of x86-64: its states, and flags of exceptions. */
#include "engines.h"

/* Exceptions: in struct status as in the processor's words, but for FLUSHED. */
#define INVALID 1
#define DENORMAL 2 /* libunicorn does not raise this one, and keeps it */
#define DIVIDE 4
#define OVERFLOW 8
#define UNDERFLOW 16
#define INEXACT 32
#define EXCEPTIONS 63
#define FLUSHED 128 /* a tiny result has become zero */

/* Return what the processor's word shows of what was raised. */
static inline uint32_t shown(uint8_t raised)
{
	return (raised & EXCEPTIONS) | (raised & FLUSHED ? UNDERFLOW | INEXACT : 0);
}

/* Raise an exception of the processor in a block. from: the address in the block. */
typedef void raise_in_block(void *state, int vector, uintptr_t from);

/* libunicorn's function for an instruction of SSE. */
typedef uint64_t instruction(void *state, void *to, void *from, uint64_t immediate);

#pragma GCC visibility push(hidden)
void show_x87(void *state); /* fill its status word in */
#pragma GCC visibility pop
