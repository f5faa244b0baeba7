/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include "field_at.h"

/* The state of a ppc64 processor (CPUPPCState) of libunicorn 2.1.4, as far as is known. */
struct ppc64_state {
	union {
		FIELD_AT(0x0, uint64_t gpr[32]);
		FIELD_AT(0x200, uint64_t lr);
		FIELD_AT(0x208, uint64_t ctr);
		FIELD_AT(0x210, uint32_t crf[8]);
		FIELD_AT(0x238, uint64_t xer); /* without the three bits that follow */
		FIELD_AT(0x240, uint64_t so);
		FIELD_AT(0x248, uint64_t ov);
		FIELD_AT(0x250, uint64_t ca);
		/* the address that larx has reserved, or NEVER */
		FIELD_AT(0x268, uint64_t reserve_addr);
		FIELD_AT(0x280, uint64_t msr);
		/* tgpr[0], which only the 602 has: the board's address here */
		FIELD_AT(0x288, uint64_t board);
		FIELD_AT(0x2a8, uint64_t nip);
		FIELD_AT(0xb14, uint32_t need_flush); /* set by tlbie, for a later flush */
		FIELD_AT(0xb18, uint64_t spr[1024]);
		/* functions: read and write for programs, kernel, hypervisor */
		FIELD_AT(0x2b18, uint64_t access[1024][8]);
		/* registers of floating point and vectors, and their status */
		FIELD_AT(0x12b18, uint64_t floats[136]);
		FIELD_AT(0x12f70, uint64_t msr_mask);
		FIELD_AT(0x12fa0, uint32_t error_code);
		/* bits of MSR that translated code depends on */
		FIELD_AT(0x13318, uint64_t hflags);
		FIELD_AT(0x13320, uint64_t hflags_more);
		FIELD_AT(0x13328, uint32_t code_mode); /* for which addresses are translated */
		FIELD_AT(0x1332c, uint32_t data_mode);
		FIELD_AT(0x138a0, uint64_t engine); /* the pointer to the engine */
	};
};
