// SPDX-License-Identifier: GPL-2.0-or-later
/* How processors of riscv64 start, take turns, and which interrupts wait for them. */
#include "riscv64.h"

bool pending(const struct cpu *c)
{
	return own(c)->raised & own(c)->enabled;
}

void reset_cpu(struct cpu *c)
{
	const struct riscv64_cpu none = { 0 };

	*own(c) = none;
	c->timer = NEVER;
}

int next_interrupt(struct board *b)
{
	struct cpu *c = this_cpu(b);
	u64 bits;

	if (b->now >= c->timer) {
		c->timer = NEVER;
		own(c)->raised |= 1u << IRQ_TIMER;
	}
	bits = own(c)->raised & own(c)->enabled;
	return bits ? __builtin_ctzll(bits) : -1;
}

void start_cpu(struct board *b)
{
	const struct cpu *c = this_cpu(b);

	*fp_status(b) = 0;
	state(b)->pc = c->start;
	state(b)->x[A0] = b->current;
	state(b)->x[A1] = c->argument;
}

void switch_context(struct board *b, struct cpu *from, struct cpu *to)
{
	u64 table = state(b)->satp;

	uc.context_save(engine(b), (void *)(uintptr_t)from->context);
	own(from)->fp_status = *fp_status(b);
	uc.context_restore(engine(b), (void *)(uintptr_t)to->context);
	*fp_status(b) = own(to)->fp_status;
	state(b)->reserved = NEVER;
	if (table != state(b)->satp)
		uc.ctl(engine(b), UC_CTL_TLB_FLUSH);
}

bool init_arch(struct board *b)
{
	state(b)->priv = PRIVILEGE_KERNEL;
	state(b)->reserved = NEVER;
	state(b)->board = (u64)b;
	return patch_registers(b) && hook_traps(b) && map_hole(b, HOLE_BASE, HOLE_END);
}
