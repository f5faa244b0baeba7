/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <stdint.h>

/* The state of a ppc64 processor (CPUPPCState) of libunicorn 2.1.4, as far as is known. */
struct ppc64_state {
	uint64_t gpr[32];
	uint64_t gprh[32];
	uint64_t lr;
	uint64_t ctr;
	uint32_t crf[8];
	uint64_t cfar;
	uint64_t xer; /* without the three bits that follow */
	uint64_t so;
	uint64_t ov;
	uint64_t ca;
	uint64_t ov32;
	uint64_t ca32;
	uint64_t reserve_addr; /* the address that larx has reserved, or NEVER */
	uint64_t reserve_value[2];
	uint64_t msr;
	uint64_t board; /* tgpr[0], which only the 602 has: the board's address here */
	uint64_t tgpr[3];
	uint64_t nip;
	uint8_t others1[0x864];
	uint32_t need_flush; /* set by tlbie, for a later flush */
	uint64_t spr[1024];
	uint64_t access[1024][8]; /* functions: read and write for programs, kernel, hypervisor */
	uint64_t floats[136];     /* registers of floating point and vectors, and their status */
	uint64_t others2[3];
	uint64_t msr_mask;
	uint64_t others3[5];
	uint32_t error_code;
	uint8_t others4[0x374];
	uint64_t hflags; /* bits of MSR that translated code depends on */
	uint64_t hflags_more;
	uint32_t code_mode; /* for which addresses are translated */
	uint32_t data_mode;
	uint8_t others5[0x570];
	uint64_t engine; /* the pointer to the engine */
};

_Static_assert(__builtin_offsetof(struct ppc64_state, lr) == 0x200, "lr");
_Static_assert(__builtin_offsetof(struct ppc64_state, reserve_addr) == 0x268, "reserve_addr");
_Static_assert(__builtin_offsetof(struct ppc64_state, msr) == 0x280, "msr");
_Static_assert(__builtin_offsetof(struct ppc64_state, nip) == 0x2a8, "nip");
_Static_assert(__builtin_offsetof(struct ppc64_state, need_flush) == 0xb14, "need_flush");
_Static_assert(__builtin_offsetof(struct ppc64_state, access) == 0x2b18, "access");
_Static_assert(__builtin_offsetof(struct ppc64_state, floats) == 0x12b18, "floats");
_Static_assert(__builtin_offsetof(struct ppc64_state, msr_mask) == 0x12f70, "msr_mask");
_Static_assert(__builtin_offsetof(struct ppc64_state, error_code) == 0x12fa0, "error_code");
_Static_assert(__builtin_offsetof(struct ppc64_state, hflags) == 0x13318, "hflags");
_Static_assert(__builtin_offsetof(struct ppc64_state, engine) == 0x138a0, "engine");
