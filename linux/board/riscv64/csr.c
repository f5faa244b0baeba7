// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Control registers: clock, interrupts, and access to the memory of programs.
 *
 * libunicorn has no clock, and would deliver interrupts by itself when one is written. So
 * functions of the board take the place of its own in its table, which all engines share.
 */
#include "riscv64.h"

#define CSR_SSTATUS 0x100
#define CSR_SIE 0x104
#define CSR_SIP 0x144
#define CSR_CYCLE 0xc00
#define CSR_TIME 0xc01
#define CSR_INSTRET 0xc02
#define CSR_COUNTER_31 0xc1f
#define KERNELS_IRQS 0x222ull

IMPORT(void, get_csr_ops, riscv_get_csr_ops_riscv64, (int csr, struct csr_ops *ops));
IMPORT(void, set_csr_ops, riscv_set_csr_ops_riscv64, (int csr, const struct csr_ops *ops));
static int (*write_status)(void *state, int csr, u64 value); /* libunicorn's own */

static int read_clock(void *state, int csr, u64 *value)
{
	(void)csr;
	*value = read_time(board_of(state));
	return 0;
}

/* Return whether a counter may not be read: libunicorn lets programs read them all. */
static int refuse_counter(void *state, int csr)
{
	const struct riscv64_state *s = state;

	return s->priv == PRIVILEGE_USER && !(s->scounteren >> (csr & 31) & 1) ? -1 : 0;
}

/*
 * libunicorn forgets all translations of addresses when SUM changes, which the kernel does
 * at each access to a program's memory. They stay here.
 */
static int write_sstatus(void *state, int csr, u64 value)
{
	u64 *status = &((struct riscv64_state *)state)->mstatus;

	*status = (*status & ~MSTATUS_SUM) | (value & MSTATUS_SUM);
	return write_status(state, csr, value);
}

static int change(struct board *b, u64 *bits, u64 *old, u64 value, u64 mask)
{
	if (old)
		*old = *bits;
	*bits = (*bits & ~mask) | (value & mask);
	set_due(b);
	return 0;
}

static int access_raised(void *state, int csr, u64 *old, u64 value, u64 mask)
{
	struct board *b = board_of(state);

	(void)csr;
	return change(b, &own(this_cpu(b))->raised, old, value, mask & 1u << IRQ_SOFTWARE);
}

static int access_enabled(void *state, int csr, u64 *old, u64 value, u64 mask)
{
	struct board *b = board_of(state);

	(void)csr;
	return change(b, &own(this_cpu(b))->enabled, old, value, mask & KERNELS_IRQS);
}

bool patch_registers(struct board *b)
{
	struct csr_ops ops;

	(void)b;
	for (int csr = CSR_CYCLE; csr <= CSR_COUNTER_31; csr++) {
		get_csr_ops(csr, &ops);
		if (csr <= CSR_INSTRET)
			ops.read = read_clock;
		if (csr != CSR_TIME)
			ops.predicate = refuse_counter;
		set_csr_ops(csr, &ops);
	}
	get_csr_ops(CSR_SIE, &ops);
	ops.op = access_enabled;
	set_csr_ops(CSR_SIE, &ops);
	get_csr_ops(CSR_SIP, &ops);
	ops.op = access_raised;
	set_csr_ops(CSR_SIP, &ops);
	get_csr_ops(CSR_SSTATUS, &ops);
	if (!ops.write)
		return false;
	if (ops.write != write_sstatus) {
		write_status = ops.write;
		ops.write = write_sstatus;
		set_csr_ops(CSR_SSTATUS, &ops);
	}
	return true;
}
