/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* arm64: where the devices are, and what the board keeps of a processor. */
#include "../board.h"

#define GIC_BASE HOLE_BASE /* the distributor */
#define GIC_SIZE 0x1000
#define GIC_CPU_BASE (HOLE_BASE + 0x10000) /* what each processor sees as its own */
#define GIC_CPU_SIZE 0x2000
#define UART_BASE (HOLE_BASE + 0x20000)
#define UART_SIZE 0x1000
#define TIMER_IRQ 27 /* of the virtual timer */
#define CLOCK_HZ 1000000000
#define AGENT_SAYS 0xe9 /* svc #AGENT_SAYS: address and size of what the agent says */

/*
 * Where libunicorn 2.1.4 keeps what its interface does not tell: in a processor, on a host of
 * x86-64, and in the state that is a part of it (CPUARMState). The host checks these.
 */
#define ARM64_EXCEPTION 0x81a0
#define ARM64_STATE 0xa350
#define ARM64_REGISTERS 0xd510
#define ARM64_JMP_BUF_MORE 0x70 /* to be added on a host of aarch64 */
#define ARM64_STATE_X 0x40
#define ARM64_STATE_PC 0x140
#define ARM64_STATE_DAIF 0x230
#define ARM64_STATE_TTBR0 0x308
#define ARM64_STATE_TTBR1 0x328
#define ARM64_STATE_MPIDR 0xb10
#define ARM64_STATE_SYNDROME 0xbd0
#define ARM64_STATE_TARGET 0xbe0

/* cpu.own. Interrupts are bits by their numbers, which are below 32. */
struct arm64_cpu {
	u64 timer_control;
	u64 timer_at;
	u64 enabled;
	u64 raised;
	u64 active;
	u64 running; /* 1 + the interrupt that was acknowledged last; 0: none */
	u64 control;
	u64 mask;    /* of priorities: 0 keeps all interrupts away */
	u64 context; /* for whom starts it */
};

/* board.devices */
struct arm64_devices { u64 distributor; /* its control register */ };
