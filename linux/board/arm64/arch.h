/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* arm64 and armhf: where the devices are, and what the board keeps of a processor. */
#include "../board.h"

#define GIC_BASE HOLE_BASE /* the distributor */
#define GIC_SIZE 0x1000
#define GIC_CPU_BASE (HOLE_BASE + 0x10000) /* what each processor sees as its own */
#define GIC_CPU_SIZE 0x2000
#define UART_BASE (HOLE_BASE + 0x20000)
#define UART_SIZE 0x1000
#define TIMER_IRQ 27 /* of the virtual timer */
#define CLOCK_HZ 1000000000

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
	u64 domains; /* armhf: what the kernel has written to DACR */
};

/* board.devices */
struct arm64_devices { u64 distributor; /* its control register */ };
