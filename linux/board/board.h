/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * The board that a kernel of a distribution finds: a processor, whose exceptions, interrupts
 * and system calls libunicorn leaves to us, its local APIC, a date, a serial port.
 *
 * It is built without a C library, and calls libunicorn through a table that Python fills,
 * so that one file serves every Linux of its architecture.
 */
#ifndef __ASSEMBLER__
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
#endif

#define NEVER (~0ull)
#define APIC_BASE 0xfee00000ull
#define APIC_SIZE 0x1000
#define HOLE_BASE 0x80000000ull /* up to the end of 32 bits nothing answers but the APIC */
#define HOLE_END 0x100000000ull
#define NR_APIC_REGS 64
#define CONSOLE_SIZE 0x10000
#define NR_FLUSHERS 16
#define NS_PER_BLOCK 20
#define NS_PER_RDTSC 20
#define LOCKED_OUT 10000000000ull /* ns without a look at an interrupt that is due */
#define TURN_BLOCKS 0x100000 /* after so many the host gets a turn */

/* Why board_run() came back; the first ones are exact. */
#define STOP_TURN 0 /* the host is to have a look; nothing else */
#define STOP_PAUSE 1 /* the agent has nothing to do, nor has anybody else */
#define STOP_BREAK 2 /* at break_at: panic() */
#define STOP_LOCKUP 3 /* interrupts off for LOCKED_OUT */
#define STOP_FLUSH 4 /* used within alone: translations are to be dropped */
#define STOP_IRQ 5 /* likewise: an interrupt is to be delivered */
#define STOP_HALTED 6 /* no interrupt will ever come */
#define STOP_TRIPLE_FAULT 7 /* no gate for vector */
#define STOP_ERROR 8 /* libunicorn failed with error */
#define STOP_LOST 9 /* libunicorn did not stop where it was told to */

#define MODE_KERNEL 0
#define MODE_USER 3

struct board {
	u64 uc;    /* uc_engine * */
	u64 state; /* the processor's in libunicorn: see struct state */
	u64 ram;   /* the guest's memory, and its size in bytes */
	u64 ram_size;

	/* what the host says */
	u64 pause;                 /* address at which the agent waits */
	u64 break_at;              /* address at which to stop: panic() */
	u64 flushers[NR_FLUSHERS]; /* functions that write code by another mapping of it */
	u64 flusher_bits;          /* a Bloom filter of them */
	u64 exact;                 /* libunicorn checks every store: no need to watch them */

	/* time, in ns: the TSC runs at 1 GHz */
	u64 now;
	u64 timer; /* when the APIC's timer is due, or NEVER */

	/* why it stopped */
	u64 stop;
	u64 stop_at;
	u64 error;
	u64 vector;
	u64 cr2;      /* as the last page fault has set it */
	u64 flush_at; /* where a flusher returns to */
	u64 unknown;  /* the first bytes of a program's last instruction that there is not */

	/* the local APIC */
	u64 apic[NR_APIC_REGS];
	u64 apic_start;  /* when the count began */
	u64 apic_period; /* ns, 0: one shot */
	u64 pending[4];  /* vectors to be delivered */

	u64 lstar; /* 0: not read yet */
	u64 fmask;
	u64 cmos; /* index */

	/* what was printed */
	u64 console_size; /* in all; it is kept modulo CONSOLE_SIZE */
	u64 debug_size;
	u64 debug_limit;
	u64 debug; /* a buffer of the host for port 0xe9 */

	/* counters */
	u64 blocks;
	u64 syscalls;
	u64 exceptions;
	u64 interrupts;
	u64 halts;
	u64 flushes;
	u64 strays; /* accesses to what is not there, and the last one's address */
	u64 stray_at;
	u8 console[CONSOLE_SIZE];
};
