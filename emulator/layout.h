/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * What libunicorn 2.1.4 keeps, and where: all that kpfs knows of its structures stands here. The
 * trials of libunicorn.py and of the boards say whether it is so. Processors of other architectures
 * than x86-64 are in layout_arm64.h and layout_riscv64.h.
 */
#include <stdint.h>

#define AT(type, base, offset) (*(type *)((char *)(base) + (offset)))

/* An engine (struct uc_struct). */
#define ENGINE_READ_REGISTER 0x88 /* functions for registers by their numbers */
#define ENGINE_WRITE_REGISTER 0x90
#define ENGINE_SET_PC 0xd0
#define ENGINE_GET_PC 0xd8
#define ENGINE_PROCESSOR 0x1b8  /* a pointer */
#define ENGINE_TRANSLATOR 0x300 /* too */
#define ENGINE_STOPS 0x56d      /* a bool: somebody has asked it to stop */
#define ENGINE_INVALID 0x590    /* an error */
#define ENGINE_QUIET 0x7f2 /* a bool: blocks do not look for a reason to stop behind each access */

/* numbers of lists of hooks, without more bits */
#define HOOKS_OF_CODE 2
#define HOOKS_OF_BLOCKS 3

/* A processor (CPUState). The C library's jmp_buf, which comes before, is larger on aarch64. */
#define PROCESSOR_STATE 0x128      /* a pointer */
#define PROCESSOR_EXCEPTION 0x81a0 /* a number */
#define MORE_ON_AARCH64 0x70

#ifdef __x86_64__
#define ENGINE_PC_IS_RIGHT 0x3a32 /* a bool: see blocks.c */
#define TRANSLATOR_DROPPED 0xd8   /* how many blocks were dropped one by one */
#define TRANSLATOR_ENGINE 0xa970  /* a pointer */
#define STATE PROCESSOR_STATE
#define EXCEPTION PROCESSOR_EXCEPTION
#else
#define ENGINE_PC_IS_RIGHT 0x5632
#define TRANSLATOR_DROPPED 0xe0
#define TRANSLATOR_ENGINE 0xaa90
#define STATE (PROCESSOR_STATE + MORE_ON_AARCH64)
#define EXCEPTION (PROCESSOR_EXCEPTION + MORE_ON_AARCH64)
#endif

/* A block of code (TranslationBlock). */
struct block {
	uint64_t pc;
	uint64_t cs_base;
	uint32_t flags;
	uint16_t size; /* of its instructions */
	uint16_t instructions;
	uint32_t kind;
	uint32_t trace;
	char *code;
	uint64_t others[4];
	uint64_t pages[2]; /* where it lies, by libunicorn's addresses of RAM */
};

/* An operation of a block that is being translated (TCGOp). */
struct operation {
	uint8_t code;
	uint8_t others[7];
	void *next;
	void *before; /* the place of next in the operation before */
	uint64_t arguments[];
};

/* codes of operations */
#define MOVE 5 /* of variables of 32 bits */
#define MOVE_CONSTANT 6
#define LOAD_WORD 71 /* 32 bits of the state into 64 */
#define BEGIN_OF_INSTRUCTION 129

/* Where calls of cpu_restore_state() return to, in helper_syscall(), _rdtsc() and _rdtscp(). */
#define IN_SYSCALL 0xee
#define IN_RDTSC 0x12e
#define IN_RDTSCP 0x13e

/* How floating-point numbers are computed, and what was raised (float_status). */
struct status {
	uint8_t tininess;
	uint8_t rounding;
	uint8_t raised;
	uint8_t precision; /* of the x87 */
	uint8_t flush_results;
	uint8_t flush_operands;
	uint8_t others[2];
};

/* The state of an x86-64 processor (CPUX86State). */
struct segment {
	uint32_t selector;
	uint32_t pad;
	uint64_t base;
	uint32_t limit;
	uint32_t flags;
};

struct number { /* of the x87 */
	uint64_t fraction;
	uint16_t high; /* sign and exponent */
} __attribute__((aligned(16)));

struct x86_state {
	uint64_t regs[16]; /* rax rcx rdx rbx rsp rbp rsi rdi r8 to r15 */
	uint64_t ip;
	uint64_t flags; /* without the arithmetic flags: they are computed of the next five */
	uint64_t cc_dst;
	uint64_t cc_src;
	uint64_t cc_src2;
	uint32_t cc_op; /* how they are kept */
	int32_t df;
	uint32_t hflags; /* the two low bits are the privilege level */
	uint32_t hflags2;
	struct segment segs[6]; /* es cs ss ds fs gs */
	struct segment ldt;
	struct segment tr;
	struct segment gdt;
	struct segment idt;
	uint64_t cr[5];
	uint8_t others1[0x8c];

	/* the x87 */
	uint32_t top;
	uint16_t status_word;
	uint16_t control_word;
	uint8_t empty[8]; /* of registers */
	uint8_t others2[4];
	struct number st[8];
	uint8_t others3[0x18];
	struct status x87;
	struct number ft0;

	uint8_t others4[8];
	struct status sse;
	uint32_t mxcsr;
	uint8_t others5[4];
	uint64_t xmm0[2];
	uint8_t others6[0x11c0];

	/* the exception that is raised, the debug registers, and the exception before */
	uint32_t error_code;
	uint32_t is_int; /* it is of an int instruction */
	uint8_t others7[8];
	uint64_t dr[8];
	uint8_t others8[0x20];
	int32_t old_exception;
};

#define X86(state) ((struct x86_state *)(state))

_Static_assert(__builtin_offsetof(struct block, pages) == 72, "block");
_Static_assert(__builtin_offsetof(struct x86_state, cc_op) == 168, "cc_op");
_Static_assert(__builtin_offsetof(struct x86_state, cr) == 0x1a8, "cr");
_Static_assert(__builtin_offsetof(struct x86_state, top) == 0x25c, "top");
_Static_assert(__builtin_offsetof(struct x86_state, st) == 0x270, "st");
_Static_assert(__builtin_offsetof(struct x86_state, x87) == 0x308, "x87");
_Static_assert(__builtin_offsetof(struct x86_state, sse) == 0x328, "sse");
_Static_assert(__builtin_offsetof(struct x86_state, xmm0) == 0x338, "xmm0");
_Static_assert(__builtin_offsetof(struct x86_state, error_code) == 5384, "error_code");
_Static_assert(__builtin_offsetof(struct x86_state, dr) == 5400, "dr");
_Static_assert(__builtin_offsetof(struct x86_state, old_exception) == 5496, "old_exception");
