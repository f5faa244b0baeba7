/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include "field_at.h"

/* in the memory of the TLB: numbers and functions stand before them */
#define MIPS64_TLB_ENTRIES 64
#define MIPS64_TLB_SIZE (128 * 40)

/* The state of a mips64 processor (CPUMIPSState) of libunicorn 2.1.4, as far as is known. */
struct mips64_state {
	union {
		FIELD_AT(0x0, uint64_t gpr[32]);
		FIELD_AT(0x100, uint64_t pc);
		FIELD_AT(0x108, uint64_t hi[4]);
		FIELD_AT(0x128, uint64_t lo[4]);
		FIELD_AT(0x338, uint8_t fpr[32][16]);
		FIELD_AT(0x548, uint32_t fcr31);
		FIELD_AT(0x5c8, uint64_t context);
		FIELD_AT(0x610, uint32_t wired);
		FIELD_AT(0x640, uint32_t hwrena);
		FIELD_AT(0x648, uint64_t badvaddr);
		FIELD_AT(0x688, uint32_t compare);
		FIELD_AT(0x68c, uint32_t status);
		FIELD_AT(0x69c, uint32_t cause);
		FIELD_AT(0x6a0, uint64_t epc);
		FIELD_AT(0x6a8, uint64_t id);
		FIELD_AT(0x6b0, uint64_t ebase);
		FIELD_AT(0x6c0, uint64_t coherence); /* of the manager's registers, by 16 bytes */
		FIELD_AT(0x6c8, uint32_t config[5]);
		FIELD_AT(0x780, uint64_t reserved); /* the address that ll has reserved, or 1 */
		FIELD_AT(0x3e40, uint32_t error_code);
		/* what translated code depends on, and a branch that is under way */
		FIELD_AT(0x3e44, uint32_t hflags);
		FIELD_AT(0x3e80, char *tlb);
		/* irq[0], which libunicorn has no use for: the board's address here */
		FIELD_AT(0x3e90, uint64_t board);
		FIELD_AT(0x3ef0, uint64_t engine); /* the pointer to the engine */
	};
};
