/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* riscv64: what the board keeps of a processor (hart). */
#include "../board.h"

/* libunicorn 2.1.4's CPURISCVState, as far as is known here. The host checks that it is so. */
struct riscv64_state {
	u64 x[32];
	u64 f[32];
	u64 pc;
	u64 reserved; /* the address that lr has reserved, or NEVER */
	u64 pad1;
	u64 frm;
	u64 fault; /* the address of the last page fault */
	u64 pad2[5];
	u64 priv;
	u64 pad3[3];
	u64 mstatus;
	u64 pad4[5];
	u64 satp;
	u64 stval;
	u64 pad5[2];
	u64 stvec;
	u64 sepc;
	u64 scause;
	u64 pad6[14];
	u64 board; /* vsscratch, which only a hypervisor would use: the board's address here */
	u64 pad7[13];
	u64 scounteren;
	u64 pad8;
	u64 sscratch;
	u64 pad9[69];
	u64 engine; /* from here on, the pointer to the engine and the processor's options */
};

#define RISCV64_FP 0x601 /* in it, not aligned: what no uc_context has of floating point */

/* cpu.own. Interrupts are bits by their numbers. */
struct riscv64_cpu {
	u64 raised;
	u64 enabled;
	u64 fp_status; /* while another one runs */
	u64 context;   /* for whom starts it */
};
