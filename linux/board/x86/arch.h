/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* x86-64: what libunicorn 2.1.4 keeps of a processor and where, and what the board adds. */
#include "../board.h"

#define APIC_BASE 0xfee00000ull
#define APIC_SIZE 0x1000
#define NR_APIC_REGS 64
#define NR_DEBUG_HOOKS 3
#define MODE_KERNEL 0
#define MODE_USER 3

/* cpu.own */
struct x86_cpu {
	u64 cr2;   /* as set by the last page fault */
	u64 lstar; /* 0: not read yet */
	u64 fmask;

	/* the local APIC */
	u64 apic[NR_APIC_REGS];
	u64 apic_start;  /* when the count began */
	u64 apic_period; /* ns, 0: one shot */
	u64 pending[4];  /* vectors to be delivered */
	u64 nmi;

	/* the debug registers */
	u64 touched; /* bits of dr6: what the last instruction has touched */
	u64 watches; /* dr7 has watchpoints of data */
};

/* board.devices */
struct x86_devices {
	u64 cpuid[4];  /* leaf 1: eax, ebx, ecx and edx, of the first processor */
	u64 cmos;      /* index */
	u64 pit_start; /* when the counter was set */
	u64 pit_half;  /* its next byte is the high one */

	/* while watchpoints of data are, or were just now, set on any processor */
	u64 hooks[NR_DEBUG_HOOKS];
	u64 watched_at; /* when a processor had them last */
	u64 dropped;    /* hooks were deleted, which stay in what is translated in one more run */
};
