/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* The used part of libunicorn's interface, and where 2.1.4 keeps a processor's state. */
#include "board.h"

#define UC_HOOK_INTR 0x1
#define UC_HOOK_INSN 0x2
#define UC_HOOK_BLOCK 0x8
#define UC_HOOK_MEM_READ_UNMAPPED 0x10
#define UC_HOOK_MEM_WRITE_UNMAPPED 0x20
#define UC_HOOK_MEM_FETCH_UNMAPPED 0x40
#define UC_HOOK_MEM_FETCH_PROT 0x200
#define UC_HOOK_INSN_INVALID 0x4000
#define UC_X86_INS_CPUID 113
#define UC_X86_INS_IN 218
#define UC_X86_INS_OUT 500
#define UC_X86_INS_RDTSC 608
#define UC_X86_INS_RDTSCP 609
#define UC_X86_INS_SYSCALL 699
#define UC_X86_REG_CR0 50
#define UC_X86_REG_CR4 54
#define UC_X86_REG_MSR 248
#define UC_X86_REG_RFLAGS 253
#define UC_CTL_TB_FLUSH (10 | 1 << 30)
#define UC_CTL_TLB_FLUSH (11 | 1 << 30)

#define MSR_EFER 0xc0000080
#define MSR_LSTAR 0xc0000082
#define MSR_FMASK 0xc0000084
#define MSR_TSC_AUX 0xc0000103

typedef void *uc_engine;

/* Filled by the host: addresses of functions, in this order. */
struct uc_api {
	int (*reg_read)(uc_engine, int reg, void *value);
	int (*reg_write)(uc_engine, int reg, const void *value);
	int (*emu_start)(uc_engine, u64 begin, u64 until, u64 timeout, size_t count);
	int (*emu_stop)(uc_engine);
	int (*hook_add)(uc_engine, size_t *hook, int type, void *callback, void *data, u64 begin,
			u64 end, ...);
	int (*mmio_map)(uc_engine, u64 address, size_t size, void *read, void *read_data,
			void *write, void *write_data);
	int (*ctl)(uc_engine, int control, ...);
	int (*context_alloc)(uc_engine, void **context);
	int (*context_save)(uc_engine, void *context);
	int (*context_restore)(uc_engine, void *context);
};

struct segment {
	u32 selector;
	u32 pad;
	u64 base;
	u32 limit;
	u32 flags;
};

/* The start of the processor's state. The host checks this layout before it is used. */
struct state {
	u64 regs[16]; /* rax rcx rdx rbx rsp rbp rsi rdi r8 to r15 */
	u64 ip;
	u64 flags; /* without the arithmetic flags: see get_flags() */
	u64 lazy[4];
	u32 hflags; /* the two low bits are the privilege level */
	u32 hflags2;
	struct segment segs[6]; /* es cs ss ds fs gs */
	struct segment ldt;
	struct segment tr;
	struct segment gdt;
	struct segment idt;
	u64 cr[5];
};

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11 };
enum { ES, CS, SS, DS, FS, GS };

#define ERROR_CODE 5384 /* offsets in the state */
#define OLD_EXCEPTION 5496

#define HFLAG_INHIBIT_IRQ 8

extern struct uc_api uc;

static inline uc_engine engine(const struct board *b)
{
	return (uc_engine)(uintptr_t)b->uc;
}

static inline struct state *state(const struct board *b)
{
	return (struct state *)(uintptr_t)b->state;
}
