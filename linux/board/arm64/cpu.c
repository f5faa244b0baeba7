// SPDX-License-Identifier: GPL-2.0-or-later
/* How processors of arm64 start and take turns. */
#include "arm64.h"

#define MPIDR_VALID 0x80000000u

struct arm64_api arm64_api;

void start_cpu(struct board *b)
{
	const struct cpu *c = this_cpu(b);

	uc.context_restore(engine(b), (void *)(uintptr_t)b->reset);
	FIELD(u64, b->state + ARM64_STATE_PC) = c->start;
	FIELD(u64, b->state + ARM64_STATE_MPIDR) = MPIDR_VALID | b->current;
	general(b)[0] = own(c)->context;
}

void switch_context(struct board *b, struct cpu *from, struct cpu *to)
{
	uc.context_save(engine(b), (void *)(uintptr_t)from->context);
	uc.context_restore(engine(b), (void *)(uintptr_t)to->context);
	uc.ctl(engine(b), UC_CTL_TLB_FLUSH);
}

bool init_arch(struct board *b, const void *api)
{
	arm64_api = *(const struct arm64_api *)api;
	return patch_registers(b) && hook_traps(b) && map_gic(b);
}
