/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include "arch.h"

#define ARCH_CPU struct x86_cpu
#define ARCH_DEVICES struct x86_devices
#include "../accessors.h"

#define UC_X86_INS_CPUID 113
#define UC_X86_INS_IN 218
#define UC_X86_INS_OUT 500
#define UC_X86_INS_RDTSC 608
#define UC_X86_INS_RDTSCP 609
#define UC_X86_INS_SYSCALL 699
#define UC_X86_INS_SYSENTER 700
#define UC_X86_REG_CR0 50
#define UC_X86_REG_CR4 54
#define UC_X86_REG_MSR 248
#define UC_X86_REG_RFLAGS 253
#define MSR_APIC_BASE 0x1b
#define MSR_SYSENTER_CS 0x174
#define MSR_SYSENTER_ESP 0x175
#define MSR_SYSENTER_EIP 0x176
#define MSR_EFER 0xc0000080
#define MSR_LSTAR 0xc0000082
#define MSR_FMASK 0xc0000084
#define MSR_TSC_AUX 0xc0000103

#define FLAGS_TF 0x100
#define FLAGS_IF 0x200
#define FLAGS_NT 0x4000
#define FLAGS_RF 0x10000
#define FLAGS_VM 0x20000
#define FLAGS_OF_BLOCKS 0x73100u /* TF, IOPL, RF, VM and AC: blocks are translated for these */

/* vectors of exceptions */
#define DB 1
#define NMI 2
#define UD 6
#define DF 8
#define GP 13
#define PF 14

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11 };
enum { ES, CS, SS, DS, FS, GS };

#define HFLAG_INHIBIT_IRQ 8
#define HFLAG_ADD_SEGMENTS 0x40
#define HFLAG_CS64 0x8000
#define HFLAGS_32 0x30 /* code and stack of 32 bits */
#define HFLAGS_64 (HFLAG_CS64 | 0x30) /* 64-bit code, and what goes with it */

static inline struct x86_state *state(const struct board *b)
{
	return (struct x86_state *)(uintptr_t)b->state;
}

static inline u64 *debug_regs(const struct board *b)
{
	return state(b)->dr;
}

/* trap.c */
bool push_word(struct board *b, u64 addr, u64 value);
void set_mode(struct board *b, int mode);
bool hook_traps(struct board *b);

/* debugreg.c */
bool next_debug(struct board *b);
void forget_touched(struct board *b);
void drop_unused_hooks(struct board *b);
void hooks_dropped(struct board *b);
void watch_debug_regs(struct board *b);

/* apic.c */
bool map_apic(struct board *b);

/* ports.c */
bool may_use_port(void *board, u32 port, u32 size);
bool hook_ports(struct board *b);
