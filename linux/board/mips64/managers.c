// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * How processors of mips64 start each other and send interrupts: a coherence manager (CM), a power
 * controller (CPC) and an interrupt controller (GIC), whose registers follow each other. Of the
 * GIC's interrupts there are only those that processors send; timers have lines of their own.
 *
 * Kernel: arch/mips/kernel/smp-cps.c, drivers/irqchip/irq-mips-gic.c
 */
#include "mips64.h"

enum {
	CM_CONFIG = 0,
	CM_BASE = 8,
	CM_REVISION = 0x30,
	CM_CPC_BASE = 0x88,
	CM_GIC_STATUS = 0xd0,
	CM_CPC_STATUS = 0xf0,
	CM_CHOSEN = 0x2018,
	CM_RESET_BASE = 0x2020,
	CM_NUMBER = 0x2028,
	CPC_COMMAND = 0xa000,
	CPC_STATE = 0xa008,
	CPC_CHOSEN = 0xa010,
	GIC = MIPS64_GIC - MIPS64_MANAGERS,
	GIC_CONFIG = GIC,
	GIC_SEND = GIC + 0x280,
	GIC_MASK = GIC + 0x300,
	GIC_UNMASK = GIC + 0x380,
	GIC_SENT = GIC + 0x480,
	GIC_RECEIVER = GIC + 0x2000, /* for each interrupt */
};
#define GIC_RECEIVERS_END (GIC_RECEIVER + 0x400)
#define RECEIVERS(interrupt_at) (((interrupt_at) - GIC_RECEIVER) / 0x20)
#define NR_INTERRUPTS_32 (3u << 16)
#define SENDS (1u << 31)
#define OTHERS(at) (((at) & 0x6000) == 0x4000 && (at) < GIC)
#define OWN(at) ((at) - 0x2000)
#define CHOSEN_SHIFT 16

#define PRESENT 1
#define CM_2_WITHOUT_SYNC 0x0500 /* no memory to be read as a barrier */
enum { POWER_DOWN = 2, POWER_UP, RESET };
#define RUNS_COHERENTLY (7u << 19)

/* Return the processor whose register is meant, at its address as that one would have it. */
static struct cpu *owner(struct board *b, u64 *at)
{
	u64 chosen = *at < CPC_COMMAND ? own(this_cpu(b))->chosen : own(this_cpu(b))->chosen_power;

	if (!OTHERS(*at))
		return this_cpu(b);
	*at = OWN(*at);
	chosen >>= CHOSEN_SHIFT;
	return &b->cpus[chosen < b->nr_cpus ? chosen : b->current];
}

static u64 read_manager(uc_engine u, u64 at, unsigned int size, void *data)
{
	struct board *b = data;
	const struct cpu *c = owner(b, &at);

	(void)u, (void)size;
	switch (at) {
	case CM_CONFIG:     return b->nr_cpus - 1;
	case CM_BASE:       return MIPS64_MANAGERS;
	case CM_REVISION:   return CM_2_WITHOUT_SYNC;
	case CM_CPC_BASE:   return (MIPS64_MANAGERS + 0x8000) | PRESENT;
	case CM_GIC_STATUS:
	case CM_CPC_STATUS: return PRESENT;
	case CM_NUMBER:     return c - b->cpus;
	case CPC_STATE:     return c->state == CPU_OFF ? 0 : RUNS_COHERENTLY;
	case GIC_CONFIG:    return NR_INTERRUPTS_32 | (b->nr_cpus - 1);
	case GIC_SENT:      return devices(b)->sent;
	}
	return 0;
}

static void command(struct board *b, struct cpu *c, u64 what)
{
	if (what == POWER_DOWN) {
		reset_cpu(c);
		turn_off(b, c);
	} else if (what == POWER_UP || what == RESET) {
		turn_on(b, c, (int64_t)(int32_t)own(c)->reset_base);
	}
}

/* Raise the line of each processor that something was sent to. It runs next, as the sender waits. */
static void raise_sent(struct board *b)
{
	for (u64 i = 0; i < b->nr_cpus; i++) {
		struct mips64_cpu *o = own(&b->cpus[i]);
		bool is_sent = devices(b)->sent & devices(b)->unmasked & o->receives;

		o->raised = (o->raised & ~SENT) | (is_sent ? SENT : 0);
		if (i != b->current && pending(&b->cpus[i]))
			b->turn_end = settle(b);
	}
	set_due(b);
}

static void set_receivers(struct board *b, u64 interrupt, u64 receivers)
{
	for (u64 i = 0; i < b->nr_cpus; i++) {
		u64 *receives = &own(&b->cpus[i])->receives;

		*receives &= ~(1ull << interrupt);
		*receives |= (receivers >> i & 1) << interrupt;
	}
}

static void write_manager(uc_engine u, u64 at, unsigned int size, u64 value, void *data)
{
	struct board *b = data;
	struct cpu *c = owner(b, &at);
	struct mips64_devices *d = devices(b);

	(void)u, (void)size;
	switch (at) {
	case CM_CHOSEN:     own(c)->chosen = value; return;
	case CM_RESET_BASE: own(c)->reset_base = value; return;
	case CPC_COMMAND:   command(b, c, value & 15); return;
	case CPC_CHOSEN:    own(c)->chosen_power = value; return;
	case GIC_SEND:
		d->sent &= ~(1ull << (value & 31));
		d->sent |= (u64)!!(value & SENDS) << (value & 31);
		break;
	case GIC_MASK:   d->unmasked &= ~value; break;
	case GIC_UNMASK: d->unmasked |= value; break;
	default:
		if (at >= GIC_RECEIVER && at < GIC_RECEIVERS_END && !(at & 31))
			set_receivers(b, RECEIVERS(at), value);
	}
	raise_sent(b);
}

bool map_managers(struct board *b)
{
	return !uc.mmio_map(engine(b), MIPS64_MANAGERS,
			    MIPS64_GIC + MIPS64_GIC_SIZE - MIPS64_MANAGERS, read_manager, b,
			    write_manager, b);
}
