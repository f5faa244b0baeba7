/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <stdint.h>

#define MIPS64_TLB_ENTRIES 64 /* in the memory of the TLB: numbers and functions stand before them */
#define MIPS64_TLB_SIZE (128 * 40)

/* The state of a mips64 processor (CPUMIPSState) of libunicorn 2.1.4, as far as is known. */
struct mips64_state {
	uint64_t gpr[32];
	uint64_t pc;
	uint64_t hi[4];
	uint64_t lo[4];
	uint8_t others1[0x1f0];
	uint8_t fpr[32][16];
	uint8_t others2[0x10];
	uint32_t fcr31;
	uint8_t others3[0x7c];
	uint64_t context;
	uint8_t others4[0x40];
	uint32_t wired;
	uint8_t others5[0x2c];
	uint32_t hwrena;
	uint32_t pad;
	uint64_t badvaddr;
	uint8_t others6[0x28];
	uint64_t entryhi;
	uint8_t others7[8];
	uint32_t compare;
	uint32_t status;
	uint8_t others8[0xc];
	uint32_t cause;
	uint64_t epc;
	uint64_t id;
	uint64_t ebase;
	uint64_t others9;
	uint64_t coherence; /* where the manager's registers are, by 16 bytes */
	uint32_t config[5];
	uint8_t others10[0xa4];
	uint64_t reserved; /* the address that ll has reserved, or 1 */
	uint8_t others11[0x36b8];
	uint32_t error_code;
	uint32_t hflags; /* what translated code depends on, and a branch that is under way */
	uint8_t others12[0x30];
	uint64_t others13;
	char *tlb;
	uint64_t others14;
	uint64_t board; /* irq[0], which libunicorn has no use for: the board's address here */
	uint64_t others15[11];
	uint64_t engine; /* the pointer to the engine */
};

_Static_assert(__builtin_offsetof(struct mips64_state, fpr) == 0x338, "fpr");
_Static_assert(__builtin_offsetof(struct mips64_state, fcr31) == 0x548, "fcr31");
_Static_assert(__builtin_offsetof(struct mips64_state, context) == 0x5c8, "context");
_Static_assert(__builtin_offsetof(struct mips64_state, wired) == 0x610, "wired");
_Static_assert(__builtin_offsetof(struct mips64_state, hwrena) == 0x640, "hwrena");
_Static_assert(__builtin_offsetof(struct mips64_state, badvaddr) == 0x648, "badvaddr");
_Static_assert(__builtin_offsetof(struct mips64_state, entryhi) == 0x678, "entryhi");
_Static_assert(__builtin_offsetof(struct mips64_state, cause) == 0x69c, "cause");
_Static_assert(__builtin_offsetof(struct mips64_state, coherence) == 0x6c0, "coherence");
_Static_assert(__builtin_offsetof(struct mips64_state, reserved) == 0x780, "reserved");
_Static_assert(__builtin_offsetof(struct mips64_state, error_code) == 0x3e40, "error_code");
_Static_assert(__builtin_offsetof(struct mips64_state, tlb) == 0x3e80, "tlb");
_Static_assert(__builtin_offsetof(struct mips64_state, engine) == 0x3ef0, "engine");
