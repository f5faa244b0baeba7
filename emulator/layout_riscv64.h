/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <stdint.h>

/* The state of a riscv64 processor (CPURISCVState) of libunicorn 2.1.4, as far as is known. */
struct riscv64_state {
	uint64_t x[32];
	uint64_t f[32];
	uint64_t pc;
	uint64_t reserved; /* the address that lr has reserved, or NEVER */
	uint64_t pad1;
	uint64_t frm;
	uint64_t fault; /* the address of the last page fault */
	uint64_t pad2[5];
	uint64_t priv;
	uint64_t pad3[3];
	uint64_t mstatus;
	uint64_t pad4[5];
	uint64_t satp;
	uint64_t stval;
	uint64_t pad5[2];
	uint64_t stvec;
	uint64_t sepc;
	uint64_t scause;
	uint64_t pad6[14];
	uint64_t board; /* vsscratch, which only a hypervisor would use: the board's address here */
	uint64_t pad7[13];
	uint64_t scounteren;
	uint64_t pad8;
	uint64_t sscratch;
	uint64_t pad9[69];
	uint64_t engine; /* from here on, the pointer to the engine and the processor's options */
};

#define RISCV64_FP 0x601 /* in it, not aligned: what no uc_context has of floating point */

_Static_assert(__builtin_offsetof(struct riscv64_state, engine) == 0x5f8, "riscv64_state");
