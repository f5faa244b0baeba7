/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include "field_at.h"

/* The state of an s390x processor (CPUS390XState) of libunicorn 2.1.4, as far as is known. */
struct s390x_state {
	union {
		FIELD_AT(0x0, uint64_t r[16]);
		FIELD_AT(0x80, uint64_t v[32][2]);
		FIELD_AT(0x280, uint32_t a[16]);
		FIELD_AT(0x2f4, uint32_t fpc);
		/* the condition code, or how it is computed of the three below */
		FIELD_AT(0x2f8, uint32_t cc_op);
		FIELD_AT(0x310, uint64_t mask); /* the PSW; its condition code is not right */
		FIELD_AT(0x318, uint64_t addr);
		/* the instruction that EXECUTE is about to run, or 0 */
		FIELD_AT(0x338, uint64_t executed);
		FIELD_AT(0x348, uint64_t prefix);
		/* the exception that is raised, and the bytes of its instruction */
		FIELD_AT(0x350, uint32_t pgm_code);
		FIELD_AT(0x354, uint32_t pgm_length);
		FIELD_AT(0x358, uint32_t svc_number);
		FIELD_AT(0x35c, uint32_t svc_length);
		FIELD_AT(0x370, uint64_t cr[16]);
		/* pfault_token, which nothing uses: the board's address here */
		FIELD_AT(0x408, uint64_t board);
		FIELD_AT(0x420, uint64_t breaking_event);
		/* of the processor; from here on no uc_context has it */
		FIELD_AT(0x4a4, uint32_t number);
		FIELD_AT(0x4a8, uint64_t id);
		FIELD_AT(0x4b8, uint64_t engine); /* the pointer to the engine */
	};
};

#define S390X_KEYS 0x20000 /* how many storage keys there are: a number behind the state */
