/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include "arch.h"

#define ARCH_CPU struct mips64_cpu
#define ARCH_DEVICES struct mips64_devices
#define ARCH_STATE struct mips64_state
#include "../accessors.h"

#define STATUS_IE 1u
#define STATUS_MASKS 7u /* with EXL and ERL, each of which masks all interrupts */
#define STATUS_MODE 0x18u
#define STATUS_KX 0x80u
#define INTERRUPTS 0xff00u /* in Status and Cause */
#define SOFTWARE 0x300u
#define SENT 0x400u
#define TIMER 0x8000u
#define CAUSE_TIMER (1u << 30)

/* libunicorn's numbers of exceptions */
enum { INTERRUPT = 8, SYSTEM_CALL = 17, RESERVED_INSTRUCTION = 20 };
#define HALT 0x10001 /* from here on, what ends a run */
#define FIRST_END 0x10000

/* managers.c */
bool map_managers(struct board *b);

/* trap.c */
void end_run(struct board *b);
__attribute__((noreturn)) void raise_exception(state_t *s, u32 exception, int error,
					       uintptr_t from);
