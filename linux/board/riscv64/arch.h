/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* riscv64: what the board keeps of a processor (hart). */
#include "../board.h"

/* cpu.own. Interrupts are bits by their numbers. */
struct riscv64_cpu {
	u64 raised;
	u64 enabled;
	u64 fp_status; /* while another one runs */
};
