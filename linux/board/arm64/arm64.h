/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include "../../../emulator/layout_arm64.h"
#include "arch.h"

#define ARCH_CPU struct arm64_cpu
#define ARCH_DEVICES struct arm64_devices
#include "../accessors.h"

#define PSTATE_I 0x80

/* The general registers: those of programs and kernels of 32 bits (armhf) stand elsewhere. */
#if BITS == 32
typedef u32 general_reg;
#define REGISTERS ARM64_STATE_R
#define SP 13
#define LINK 14
#else
typedef u64 general_reg;
#define REGISTERS ARM64_STATE_X
#define SP 31
#define LINK 30
#endif

/* Exceptions by libunicorn's numbers. */
#define EXCEPTION_UNDEFINED 1
#define EXCEPTION_SVC 2
#define EXCEPTION_IRQ 5
#define EXCEPTION_SMC 13

#define FIELD(type, at) (*(type *)(uintptr_t)(at))

static inline general_reg *general(const struct board *b)
{
	return &FIELD(general_reg, b->state + REGISTERS);
}

/* gic.c */
bool map_gic(struct board *b);

/* sysregs.c */
bool patch_registers(struct board *b);

/* trap.c */
void on_exception(uc_engine u, u32 number, void *board);
