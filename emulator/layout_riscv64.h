/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include "field_at.h"

/* The state of a riscv64 processor (CPURISCVState) of libunicorn 2.1.4, as far as is known. */
struct riscv64_state {
	union {
		FIELD_AT(0x0, uint64_t x[32]);
		FIELD_AT(0x100, uint64_t f[32]);
		FIELD_AT(0x200, uint64_t pc);
		FIELD_AT(0x208, uint64_t reserved); /* the address that lr has reserved, or NEVER */
		FIELD_AT(0x218, uint64_t frm);
		FIELD_AT(0x220, uint64_t fault); /* the address of the last page fault */
		FIELD_AT(0x250, uint64_t priv);
		FIELD_AT(0x270, uint64_t mstatus);
		FIELD_AT(0x2a0, uint64_t satp);
		FIELD_AT(0x2a8, uint64_t stval);
		FIELD_AT(0x2c0, uint64_t stvec);
		FIELD_AT(0x2c8, uint64_t sepc);
		FIELD_AT(0x2d0, uint64_t scause);
		/* vsscratch, which only a hypervisor would use: the board's address here */
		FIELD_AT(0x348, uint64_t board);
		FIELD_AT(0x3b8, uint64_t scounteren);
		FIELD_AT(0x3c8, uint64_t sscratch);
		/* from here on, the pointer to the engine and the processor's options */
		FIELD_AT(0x5f8, uint64_t engine);
	};
};

#define RISCV64_FP 0x601 /* in it, not aligned: what no uc_context has of floating point */
