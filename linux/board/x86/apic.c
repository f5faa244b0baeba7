// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The local APIC of each processor: its timer on a bus of 1 GHz, and the interrupts that
 * processors send each other and themselves.
 */
#include "x86.h"

#define REG_ID 0x02
#define REG_VERSION 0x03
#define REG_LDR 0x0d
#define REG_ICR 0x30
#define REG_ICR2 0x31
#define REG_LVT_TIMER 0x32
#define REG_COUNT 0x38
#define REG_CURRENT 0x39
#define REG_DIVIDE 0x3e
#define VERSION 0x50014
#define LVT_MASKED 0x10000
#define LVT_PERIODIC 0x20000
#define ICR_VECTOR 0xff
#define ICR_MODE 0x700
#define ICR_FIXED 0x000
#define ICR_LOWEST 0x100
#define ICR_NMI 0x400
#define ICR_INIT 0x500
#define ICR_STARTUP 0x600
#define ICR_LOGICAL 0x800
#define ICR_BUSY 0x1000
#define ICR_ASSERT 0x4000
#define ICR_SHORTHAND 0xc0000
#define ICR_SELF 0x40000
#define ICR_ALL 0x80000
#define ICR_OTHERS 0xc0000
#define BROADCAST 0xff
#define MAX_LATE 2000000000ull /* ns */

static u64 divisor(const struct cpu *c)
{
	u64 code = (own(c)->apic[REG_DIVIDE] & 3) | (own(c)->apic[REG_DIVIDE] >> 1 & 4);

	return code == 7 ? 1 : 2ull << code;
}

static u64 current_count(const struct cpu *c, u64 now)
{
	u64 count = own(c)->apic[REG_COUNT];
	u64 passed = (now - own(c)->apic_start) / divisor(c);

	if (!count)
		return 0;
	if (own(c)->apic[REG_LVT_TIMER] & LVT_PERIODIC)
		return count - passed % count;
	return passed < count ? count - passed : 0;
}

static void set_timer(struct cpu *c, u64 now, bool anew)
{
	u64 lvt = own(c)->apic[REG_LVT_TIMER], ns = own(c)->apic[REG_COUNT] * divisor(c);

	if (anew)
		own(c)->apic_start = now;
	own(c)->apic_period = lvt & LVT_PERIODIC ? ns : 0;
	if (!ns || lvt & LVT_MASKED)
		c->timer = NEVER;
	else if (anew || c->timer == NEVER)
		c->timer = own(c)->apic_start + ns;
}

void reset_cpu(struct cpu *c)
{
	for (int i = 0; i < NR_APIC_REGS; i++)
		own(c)->apic[i] = i == REG_LVT_TIMER ? LVT_MASKED : 0;
	for (int i = 0; i < 4; i++)
		own(c)->pending[i] = 0;
	own(c)->nmi = own(c)->touched = own(c)->watches = 0;
	c->timer = NEVER;
}

static void raise(struct cpu *c, int vector)
{
	own(c)->pending[vector / 64] |= 1ull << (vector % 64);
}

/*
 * Make the timer's interrupt pending if it is due. The kernel counts periods by their
 * interrupts, so none may be lost where the clock was set forward to follow the host's.
 * Where it was set forward by much more, after a pause, they are left out.
 */
static void timer_tick(struct cpu *c, u64 now)
{
	if (now < c->timer)
		return;
	c->timer = own(c)->apic_period ? c->timer + own(c)->apic_period : NEVER;
	if (own(c)->apic_period && c->timer + MAX_LATE < now)
		c->timer = now + own(c)->apic_period;
	raise(c, own(c)->apic[REG_LVT_TIMER] & ICR_VECTOR);
}

bool pending(const struct cpu *c)
{
	const u64 *vectors = own(c)->pending;

	return vectors[0] | vectors[1] | vectors[2] | vectors[3] | own(c)->nmi | own(c)->touched;
}

/* Take the highest pending vector; -1 if there is none. */
int next_interrupt(struct board *b)
{
	struct cpu *c = this_cpu(b);

	timer_tick(c, b->now);
	if (next_debug(b))
		return DB;
	if (own(c)->nmi) {
		own(c)->nmi = 0;
		return NMI;
	}
	for (int i = 3; i >= 0; i--) {
		if (own(c)->pending[i]) {
			int bit = 63 - __builtin_clzll(own(c)->pending[i]);

			own(c)->pending[i] &= ~(1ull << bit);
			return 64 * i + bit;
		}
	}
	return -1;
}

/* Return whether an interrupt of the running processor goes to the given one. */
static bool reaches(struct board *b, u64 icr, u64 number)
{
	u64 to = own(this_cpu(b))->apic[REG_ICR2] >> 24;

	switch (icr & ICR_SHORTHAND) {
	case ICR_SELF:   return number == b->current;
	case ICR_ALL:    return true;
	case ICR_OTHERS: return number != b->current;
	}
	if (icr & ICR_LOGICAL)
		return own(&b->cpus[number])->apic[REG_LDR] >> 24 & to;
	return to == number || to == BROADCAST;
}

static void take(struct cpu *c, u64 icr)
{
	switch (icr & ICR_MODE) {
	case ICR_FIXED:
	case ICR_LOWEST: raise(c, icr & ICR_VECTOR); break;
	case ICR_NMI:    own(c)->nmi = 1; break;
	case ICR_INIT:
		if (icr & ICR_ASSERT) {
			reset_cpu(c);
			c->state = CPU_OFF;
		}
		break;
	case ICR_STARTUP:
		if (c->state == CPU_OFF) {
			c->start = (icr & ICR_VECTOR) << 12;
			c->state = CPU_RUNS;
		}
		break;
	}
}

/* The receiver of an interrupt runs next, as the sender mostly waits for an answer. */
static void send(struct board *b, u64 icr)
{
	for (u64 i = 0; i < b->nr_cpus; i++) {
		if (!reaches(b, icr, i))
			continue;
		take(&b->cpus[i], icr);
		if (i != b->current)
			b->turn_end = settle(b);
	}
}

static u64 apic_read(uc_engine u, u64 offset, unsigned int size, void *data)
{
	struct board *b = data;
	const struct cpu *c = this_cpu(b);
	u64 reg = offset >> 4;

	(void)u, (void)size;
	switch (reg) {
	case REG_ID:      return b->current << 24;
	case REG_VERSION: return VERSION;
	case REG_CURRENT: return current_count(c, settle(b));
	case REG_ICR:     return own(c)->apic[reg] & ~(u64)ICR_BUSY;
	}
	return reg < NR_APIC_REGS ? own(c)->apic[reg] : 0;
}

static void apic_write(uc_engine u, u64 offset, unsigned int size, u64 value, void *data)
{
	struct board *b = data;
	struct cpu *c = this_cpu(b);
	u64 reg = offset >> 4;

	(void)u, (void)size;
	if (reg >= NR_APIC_REGS || reg == REG_ID || reg == REG_VERSION)
		return;
	own(c)->apic[reg] = (u32)value;
	if (reg == REG_COUNT || reg == REG_LVT_TIMER)
		set_timer(c, settle(b), reg == REG_COUNT);
	else if (reg == REG_ICR)
		send(b, value);
	else
		return;
	set_due(b);
}

bool map_apic(struct board *b)
{
	return !uc.mmio_map(engine(b), APIC_BASE, APIC_SIZE, apic_read, b, apic_write, b) &&
	       map_hole(b, HOLE_BASE, APIC_BASE) && map_hole(b, APIC_BASE + APIC_SIZE, HOLE_END);
}
