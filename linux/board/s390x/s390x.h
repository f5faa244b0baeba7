/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include "../../../emulator/layout_s390x.h"
#include "../big_endian.h"
#include "arch.h"

#define ARCH_CPU struct s390x_cpu
#define ARCH_DEVICES struct s390x_devices
#define ARCH_STATE struct s390x_state
#include "../accessors.h"

#define PSW_PER 0x4000000000000000ull
#define PSW_DAT 0x0400000000000000ull
#define PSW_EXTERNAL 0x0100000000000000ull
#define PSW_WAIT 0x0002000000000000ull
#define PSW_PROGRAM 0x0001000000000000ull
#define PSW_SPACE 0x0000c00000000000ull
#define PSW_64 0x0000000180000000ull

/* The spaces of addresses, as libunicorn numbers its translations. */
enum { PRIMARY, SECONDARY, HOME, REAL };
#define CR_OF(space) ((space) == PRIMARY ? 1 : (space) == SECONDARY ? 7 : 13)

/* External interrupts: their codes, and bits of CR0 that enable them. */
#define COMPARATOR 0x1004
#define TIMER 0x1005
#define EMERGENCY 0x1201
#define CALL 0x1202
#define SERVICE 0x2401
#define CR0_COMPARATOR 0x800ull
#define CR0_TIMER 0x400ull
#define CR0_EMERGENCY 0x4000ull
#define CR0_CALL 0x2000ull
#define CR0_SERVICE 0x200ull
#define CR0_RESET 0xe0ull
#define CR14_RESET 0xc2000000ull
#define CR0_LOW_PROTECTION 0x10000000ull

/* Program interruptions. */
#define PGM_OPERATION 1
#define PGM_PRIVILEGED 2
#define PGM_ADDRESSING 5
#define PGM_SPECIFICATION 6
#define PGM_PER 0x80

/* A PSW with PER: its instruction is about to run, or has run. */
enum { STEP_NONE, STEP_ARMED, STEP_DONE };

/* diag of the agent */
#define AGENT_SAYS 0x83230e90u   /* address and size of what it says */
#define AGENT_SHARES 0x83230e91u /* its addresses of the region are those of its space alone */

#define LOWCORE_SIZE 0x2000ull
#define RESTART_NEW 0x1a0

/* Functions of libunicorn that do not return. */
IMPORT(void, raise, tcg_s390_program_interrupt_s390x, (state_t * s, u32 code, uintptr_t from));
IMPORT(void, leave, cpu_loop_exit_s390x, (void *processor));

/* Return the host's address of the running processor's lowcore. */
static inline u64 lowcore(const struct board *b)
{
	return b->ram + state(b)->prefix;
}

/* clock.c */
u64 clock_of(const struct board *b);
void set_timer(struct board *b);
u32 external(const struct board *b, const struct cpu *c);

/* paging.c */
u64 absolute(const struct board *b, u64 real);
u64 walk(const struct board *b, u64 addr, int space);
void enter_space(struct board *b);

/* trap.c */
void set_psw(struct board *b, u64 mask, u64 addr);
bool end_step(struct board *b);
void on_exception(uc_engine u, u32 number, void *board);
