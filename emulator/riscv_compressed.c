// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Refuse the compressed instructions of riscv64 that there are not.
 *
 * libunicorn does nothing where a processor raises an exception for them. Its translator loads
 * code by halves. The function here takes the place of its own, as blocks.c tells, and gives it
 * 0, which it knows for no instruction, in place of one of these. The half of a longer
 * instruction that is loaded behind its first one stays as it is.
 */
#include "engines.h"
#include "originals.h"

typedef uint32_t load(void *state, uint64_t addr);

static load *of_load;

static bool is_reserved(uint32_t half)
{
	if ((half & 0xe003) == 0x8000)
		return true;
	return (half & 0xfc43) == 0x9c41; /* where c.subw and c.addw have their kin */
}

API uint32_t cpu_lduw_code_riscv64(void *state, uint64_t addr)
{
	uint32_t half = of_load(state, addr);
	struct engine *e = find_state(state);
	bool is_second;

	if (!e)
		return half;
	is_second = addr == e->second_half;
	e->second_half = !is_second && (half & 3) == 3 ? addr + 2 : 0;
	return !is_second && is_reserved(half) ? 0 : half;
}

ORIGINALS(ORIGINAL("cpu_lduw_code_riscv64", of_load));
