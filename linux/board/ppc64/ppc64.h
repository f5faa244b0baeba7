/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include "../../../emulator/layout_ppc64.h"
#include "../big_endian.h"
#include "arch.h"

#define ARCH_CPU struct ppc64_cpu
#define ARCH_DEVICES struct ppc64_devices
#define ARCH_STATE struct ppc64_state
#include "../accessors.h"

#define MSR_64 (1ull << 63)
#define MSR_HV (1ull << 60)
#define MSR_EE (1ull << 15)
#define MSR_PR (1ull << 14)
#define MSR_ME (1ull << 12)
#define MSR_SE (1ull << 10)
#define MSR_IR (1ull << 5)
#define MSR_DR (1ull << 4)
#define MSR_RI (1ull << 1)
#define MSR_LE (1ull << 0)

enum {
	DSISR = 18,
	DAR,
	DECR = 22,
	SRR0 = 26,
	SRR1,
	PID = 48,
	TIME_BASE = 268,
	PVR = 287,
	PURR = 309,
	HDECR,
	LPCR = 318,
	PIR = 1023
};

/* libunicorn's numbers of exceptions */
enum {
	DATA_STORAGE = 2,
	CODE_STORAGE,
	ALIGNMENT = 5,
	PROGRAM,
	NO_FLOATS,
	SYSTEM_CALL,
	DATA_SEGMENT = 65,
	CODE_SEGMENT,
	TRACE = 68,
	NO_VECTORS = 73,
	NO_VSX = 94,
	NO_FACILITY,
	ILLEGAL,
};

/* Interrupts, by the addresses of their handlers. */
#define EXTERNAL 0x500
#define DECREMENTER 0x900

#define NO_MESSAGE 0xff
#define KERNEL_MODE 1 /* libunicorn's modes of translation; 0: a program's */
#define REAL_MODE 2   /* a bit of them */

/* cpu.c */
bool is_sent(const struct cpu *c);

/* paging.c */
void flush_all(struct board *b);

/* hypercalls.c */
u64 hypercall(struct board *b);

/* trap.c */
void set_msr(state_t *s, u64 msr);
void on_exception(uc_engine u, u32 number, void *board);
