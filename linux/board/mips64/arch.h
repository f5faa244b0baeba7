/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* mips64: what the board keeps of a processor, and of all. */
#include "../../../emulator/layout_mips64.h"
#include "../board.h"

#define MIPS64_CONSOLE HOLE_BASE /* the physical address of a serial port that only prints */
#define MIPS64_NS_PER_COUNT 10
#define MIPS64_MANAGERS 0x80010000ull /* of coherence and power: see managers.c */
#define MIPS64_GIC 0x80020000ull      /* the interrupt controller, behind them */
#define MIPS64_GIC_SIZE 0x20000

/* cpu.own. Interrupts are bits, as in the registers Cause and Status. */
struct mips64_cpu {
	u64 raised;
	u64 enabled;
	u64 receives;     /* interrupts of the controller, as bits */
	u64 reset_base;   /* where it begins */
	u64 chosen;       /* another processor, whose registers it reaches; see managers.c */
	u64 chosen_power; /* likewise of the power controller */
	u64 tlb[MIPS64_TLB_SIZE / 8]; /* while another one runs */
};

/* board.devices */
struct mips64_devices {
	u64 random; /* of which entry of the TLB is replaced next, and the last one */
	u64 last_random;
	u64 kernel_table; /* where the kernel's page table is, once it is known; 0 */
	u64 fetches;      /* libunicorn fills its TLB for code */
	u64 sent;         /* interrupts of the controller, as bits */
	u64 unmasked;
};
