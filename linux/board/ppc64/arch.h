/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* ppc64: what the board keeps of a processor, and of all. */
#include "../board.h"

#define NR_TOUCHED 64

/* cpu.own. Priorities are the interrupt controller's: the smaller, the more important. */
struct ppc64_cpu {
	u64 priority; /* interrupts of this one and less important ones wait */
	u64 message;  /* the priority of what other processors send; 0xff: nothing */
	u64 taken;    /* that interrupt was taken, and is not done */
	u64 prodded;  /* it does not wait the next time */
	u64 nr_touched;
	u64 user_filled;         /* libunicorn has translations for programs */
	u64 touched[NR_TOUCHED]; /* pages of the program that the kernel has touched */
};

/* board.devices */
struct ppc64_devices {
	u64 little_endian; /* interrupts are taken so */
	u64 relocated;     /* and with translated addresses: 3 */
	u64 table;         /* the process table, and its bytes */
	u64 table_size;
};

/* Calls of the firmware, as the device tree numbers them. */
#define RTAS_DISPLAY 1
#define RTAS_GET_TIME 2
#define RTAS_SET_TIME 3
#define RTAS_POWER_OFF 4
#define RTAS_REBOOT 5
#define RTAS_CPU_STATE 6
#define RTAS_START_CPU 7
#define RTAS_STOP_SELF 8
#define RTAS_SET_INTERRUPT 9
#define RTAS_GET_INTERRUPT 10
#define RTAS_INTERRUPT_OFF 11
#define RTAS_INTERRUPT_ON 12
