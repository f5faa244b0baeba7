/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <stdint.h>

/* The state of an s390x processor (CPUS390XState) of libunicorn 2.1.4, as far as is known. */
struct s390x_state {
	uint64_t r[16];
	uint64_t v[32][2];
	uint32_t a[16];
	uint64_t others1[6];
	uint32_t others2;
	uint32_t fpc;
	uint32_t cc_op; /* the condition code, or how it is computed of the three below */
	uint8_t others3[12];
	uint64_t others4;
	uint64_t mask; /* the PSW; its condition code is not right */
	uint64_t addr;
	uint64_t others5[3];
	uint64_t executed; /* the instruction that EXECUTE is about to run, or 0 */
	uint64_t others6;
	uint64_t prefix;
	uint32_t pgm_code; /* the exception that is raised, and the bytes of its instruction */
	uint32_t pgm_length;
	uint32_t svc_number;
	uint32_t svc_length;
	uint64_t per_address;
	uint16_t per_code;
	uint64_t cr[16];
	uint64_t others7[3];
	uint64_t board; /* pfault_token, which nothing uses: the board's address here */
	uint64_t others8[2];
	uint64_t breaking_event;
	uint64_t others9[15];
	uint32_t others10;
	uint32_t number; /* of the processor; from here on no uc_context has it */
	uint64_t id;
	uint64_t others11;
	uint64_t engine; /* the pointer to the engine */
};

#define S390X_KEYS 0x20000 /* how many storage keys there are: a number behind the state */

_Static_assert(__builtin_offsetof(struct s390x_state, a) == 0x280, "a");
_Static_assert(__builtin_offsetof(struct s390x_state, fpc) == 0x2f4, "fpc");
_Static_assert(__builtin_offsetof(struct s390x_state, mask) == 0x310, "mask");
_Static_assert(__builtin_offsetof(struct s390x_state, executed) == 0x338, "executed");
_Static_assert(__builtin_offsetof(struct s390x_state, pgm_code) == 0x350, "pgm_code");
_Static_assert(__builtin_offsetof(struct s390x_state, cr) == 0x370, "cr");
_Static_assert(__builtin_offsetof(struct s390x_state, board) == 0x408, "board");
_Static_assert(__builtin_offsetof(struct s390x_state, breaking_event) == 0x420, "breaking_event");
_Static_assert(__builtin_offsetof(struct s390x_state, number) == 0x4a4, "number");
_Static_assert(__builtin_offsetof(struct s390x_state, engine) == 0x4b8, "engine");
