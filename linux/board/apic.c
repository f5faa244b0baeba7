// SPDX-License-Identifier: GPL-2.0-or-later
/* The local APIC: its timer on a bus of 1 GHz, and interrupts that a processor sends itself. */
#include "internal.h"

#define REG_VERSION 0x03
#define REG_ICR 0x30
#define REG_LVT_TIMER 0x32
#define REG_COUNT 0x38
#define REG_CURRENT 0x39
#define REG_DIVIDE 0x3e
#define VERSION 0x50014
#define LVT_MASKED 0x10000
#define LVT_PERIODIC 0x20000
#define ICR_MODE 0x700
#define ICR_BUSY 0x1000

static u64 divisor(const struct board *b)
{
	u64 code = (b->apic[REG_DIVIDE] & 3) | (b->apic[REG_DIVIDE] >> 1 & 4);

	return code == 7 ? 1 : 2ull << code;
}

static u64 current_count(const struct board *b)
{
	u64 count = b->apic[REG_COUNT];
	u64 passed = (b->now - b->apic_start) / divisor(b);

	if (!count)
		return 0;
	if (b->apic[REG_LVT_TIMER] & LVT_PERIODIC)
		return count - passed % count;
	return passed < count ? count - passed : 0;
}

static void set_timer(struct board *b, bool anew)
{
	u64 lvt = b->apic[REG_LVT_TIMER], ns = b->apic[REG_COUNT] * divisor(b);

	if (anew)
		b->apic_start = b->now;
	b->apic_period = lvt & LVT_PERIODIC ? ns : 0;
	if (!ns || lvt & LVT_MASKED)
		b->timer = NEVER;
	else if (anew || b->timer == NEVER)
		b->timer = b->apic_start + ns;
}

static void raise(struct board *b, int vector)
{
	b->pending[vector / 64] |= 1ull << (vector % 64);
}

/* If the timer is due: its interrupt is pending from now on. */
void timer_tick(struct board *b)
{
	if (b->now < b->timer)
		return;
	b->timer = b->apic_period ? b->timer + b->apic_period : NEVER;
	if (b->apic_period && b->timer < b->now)
		b->timer = b->now + b->apic_period;
	raise(b, b->apic[REG_LVT_TIMER] & 255);
}

bool interrupt_due(const struct board *b)
{
	return b->now >= b->timer ||
	       (b->pending[0] | b->pending[1] | b->pending[2] | b->pending[3]);
}

/* The highest pending vector, which is no longer pending then; -1: none. */
int next_vector(struct board *b)
{
	for (int i = 3; i >= 0; i--) {
		if (b->pending[i]) {
			int bit = 63 - __builtin_clzll(b->pending[i]);

			b->pending[i] &= ~(1ull << bit);
			return 64 * i + bit;
		}
	}
	return -1;
}

static u64 apic_read(uc_engine u, u64 offset, unsigned int size, void *data)
{
	const struct board *b = data;
	u64 reg = offset >> 4;

	(void)u, (void)size;
	switch (reg) {
	case REG_VERSION: return VERSION;
	case REG_CURRENT: return current_count(b);
	case REG_ICR:     return b->apic[reg] & ~(u64)ICR_BUSY;
	}
	return reg < NR_APIC_REGS ? b->apic[reg] : 0;
}

static void apic_write(uc_engine u, u64 offset, unsigned int size, u64 value, void *data)
{
	struct board *b = data;
	u64 reg = offset >> 4;

	(void)u, (void)size;
	if (reg >= NR_APIC_REGS || reg == REG_VERSION)
		return;
	b->apic[reg] = (u32)value;
	if (reg == REG_COUNT || reg == REG_LVT_TIMER)
		set_timer(b, reg == REG_COUNT);
	else if (reg == REG_ICR && !(value & ICR_MODE))
		raise(b, value & 255);
}

static u64 hole_read(uc_engine u, u64 offset, unsigned int size, void *data)
{
	struct board *b = data;

	(void)u, (void)size;
	b->strays++;
	b->stray_at = offset;
	return NEVER;
}

static void hole_write(uc_engine u, u64 offset, unsigned int size, u64 value, void *data)
{
	(void)value;
	hole_read(u, offset, size, data);
}

bool map_apic(struct board *b)
{
	const u64 after = APIC_BASE + APIC_SIZE;

	b->timer = NEVER;
	b->apic[REG_LVT_TIMER] = LVT_MASKED;
	return !uc.mmio_map(engine(b), APIC_BASE, APIC_SIZE, apic_read, b, apic_write, b) &&
	       !uc.mmio_map(engine(b), HOLE_BASE, APIC_BASE - HOLE_BASE, hole_read, b, hole_write,
			    b) &&
	       !uc.mmio_map(engine(b), after, HOLE_END - after, hole_read, b, hole_write, b);
}
