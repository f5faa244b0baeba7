/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include "../../../emulator/layout_riscv64.h"
#include "arch.h"

#define ARCH_CPU struct riscv64_cpu
#define ARCH_STATE struct riscv64_state
#include "../accessors.h"

#define PRIVILEGE_USER 0
#define PRIVILEGE_KERNEL 1
#define MSTATUS_SIE 0x2ull
#define MSTATUS_SPIE 0x20ull
#define MSTATUS_SPP 0x100ull
#define MSTATUS_SUM 0x40000ull

#define IRQ_SOFTWARE 1 /* what processors send each other */
#define IRQ_TIMER 5

enum { RA = 1, SP, A0 = 10, A1, A2, A6 = 16, A7 };

#define FIELD(type, at) (*(type *)(uintptr_t)(at))

/* How libunicorn accesses a control register. */
struct csr_ops {
	int (*predicate)(void *state, int csr);
	int (*read)(void *state, int csr, u64 *value);
	int (*write)(void *state, int csr, u64 value);
	int (*op)(void *state, int csr, u64 *old, u64 value, u64 mask);
};

static inline u64 *fp_status(const struct board *b)
{
	return &FIELD(u64, b->state + RISCV64_FP);
}

/* csr.c */
bool patch_registers(struct board *b);

/* sbi.c */
void firmware(struct board *b);

/* trap.c */
bool hook_traps(struct board *b);
