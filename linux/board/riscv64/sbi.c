// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the firmware answers (SBI): it sets timers, sends interrupts, starts and stops
 * processors, and prints.
 */
#include "riscv64.h"

#define EXT_BASE 0x10
#define EXT_TIME 0x54494d45
#define EXT_IPI 0x735049
#define EXT_RFENCE 0x52464e43
#define EXT_HSM 0x48534d
#define EXT_DBCN 0x4442434e
#define BASE_VERSION 0
#define BASE_PROBE 3
#define VERSION_2_0 (2 << 24)
#define RFENCE_FENCE_I 0
#define HSM_START 0
#define HSM_STOP 1
#define HSM_STATUS 2
#define DBCN_WRITE 0
#define DBCN_WRITE_BYTE 2
#define NOT_SUPPORTED (-2ull)
#define INVALID (-3ull)
#define ALREADY_AVAILABLE (-6ull)

static u64 base(u64 function, u64 id)
{
	if (function == BASE_VERSION)
		return VERSION_2_0;
	return function == BASE_PROBE && (id == EXT_BASE || id == EXT_TIME || id == EXT_IPI ||
					  id == EXT_RFENCE || id == EXT_HSM || id == EXT_DBCN);
}

static void set_timer(struct board *b, u64 at)
{
	struct cpu *c = this_cpu(b);

	own(c)->raised &= ~(1ull << IRQ_TIMER);
	c->timer = at;
	set_due(b);
}

static void send(struct board *b, u64 mask, u64 first)
{
	for (u64 i = 0; i < b->nr_cpus; i++) {
		if (first != NEVER && (i < first || i - first > 63 || !(mask >> (i - first) & 1)))
			continue;
		own(&b->cpus[i])->raised |= 1u << IRQ_SOFTWARE;
		notify(b, &b->cpus[i]);
	}
}

static u64 start(struct board *b, u64 number, u64 entry, u64 context)
{
	if (number >= b->nr_cpus)
		return INVALID;
	return turn_on_with(b, number, entry, context) ? 0 : ALREADY_AVAILABLE;
}

static u64 processors(struct board *b, const u64 *x, u64 *value)
{
	switch (x[A6]) {
	case HSM_START: return start(b, x[A0], x[A1], x[A2]);
	case HSM_STOP:  turn_off(b, this_cpu(b)); return 0;
	case HSM_STATUS:
		if (x[A0] >= b->nr_cpus)
			return INVALID;
		*value = b->cpus[x[A0]].state == CPU_OFF;
		return 0;
	}
	return NOT_SUPPORTED;
}

static u64 console(struct board *b, const u64 *x, u64 *value)
{
	if (x[A6] == DBCN_WRITE_BYTE)
		print(b, x[A0]);
	else if (x[A6] != DBCN_WRITE)
		return NOT_SUPPORTED;
	else if (x[A1] > b->ram_size || x[A0] > b->ram_size - x[A1])
		return INVALID;
	else
		for (*value = 0; *value < x[A0]; ++*value)
			print(b, FIELD(u8, b->ram + x[A1] + *value));
	return 0;
}

void firmware(struct board *b)
{
	u64 *x = state(b)->x, error = 0, value = 0;

	switch (x[A7]) {
	case EXT_BASE: value = base(x[A6], x[A0]); break;
	case EXT_TIME: set_timer(b, x[A0]); break;
	case EXT_IPI:  send(b, x[A0], x[A1]); break;
	case EXT_RFENCE:
		/* stores to code are noticed anyway */
		if (x[A6] != RFENCE_FENCE_I)
			uc.ctl(engine(b), UC_CTL_TLB_FLUSH);
		break;
	case EXT_HSM:  error = processors(b, x, &value); break;
	case EXT_DBCN: error = console(b, x, &value); break;
	default:       error = NOT_SUPPORTED;
	}
	x[A0] = error;
	x[A1] = value;
}
