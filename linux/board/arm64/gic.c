// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The interrupt controller, a GICv2, and the serial port. There are only the interrupts that
 * each processor has by itself: those that processors send, and the timer's. All have one
 * priority, as Linux gives them one, so none interrupts another.
 */
#include "arm64.h"

#define GICD_CTLR 0x0
#define GICD_TYPER 0x4
#define GICD_IIDR 0x8
#define GICD_ISENABLER 0x100
#define GICD_ICENABLER 0x180
#define GICD_ISPENDR 0x200
#define GICD_ICPENDR 0x280
#define GICD_ISACTIVER 0x300
#define GICD_ICACTIVER 0x380
#define GICD_ITARGETSR 0x800
#define GICD_ITARGETSR_END 0x820
#define GICD_SGIR 0xf00
#define GICC_CTLR 0x0
#define GICC_PMR 0x4
#define GICC_IAR 0xc
#define GICC_EOIR 0x10
#define GICC_RPR 0x14
#define GICC_HPPIR 0x18
#define GICC_IIDR 0xfc
#define GICC_DIR 0x1000
#define ENABLE 1
#define EOI_KEEPS_ACTIVE 0x200
#define ARM_GICV2 0x0002043b
#define NO_IRQ 1023
#define IDLE_PRIORITY 0xff
#define NR_SGIS 16
#define SGI_OTHERS 1
#define SGI_SELF 2

#define UART_FLAGS_IDLE 0x90 /* nothing received, all sent */

bool pending(const struct cpu *cpu)
{
	const struct arm64_cpu *c = own(cpu);

	return c->control & ENABLE && c->mask && !c->running && c->raised & c->enabled & ~c->active;
}

void reset_cpu(struct cpu *c)
{
	const struct arm64_cpu none = { 0 };

	*own(c) = none;
	c->timer = NEVER;
}

/* An interrupt is taken when the kernel asks for its number. Here it only becomes due. */
int next_interrupt(struct board *b)
{
	struct cpu *c = this_cpu(b);

	if (b->now >= c->timer) {
		c->timer = NEVER;
		own(c)->raised |= 1u << TIMER_IRQ;
	}
	return pending(c) ? 0 : -1;
}

static int lowest(const struct cpu *c)
{
	return pending(c) ? __builtin_ctzll(own(c)->raised & own(c)->enabled & ~own(c)->active) :
			    NO_IRQ;
}

/* The receiver of an interrupt runs next, as the sender mostly waits for an answer. */
static void send(struct board *b, u64 value)
{
	u64 filter = value >> 24 & 3, to = value >> 16 & 0xff;

	for (u64 i = 0; i < b->nr_cpus; i++) {
		bool self = i == b->current;

		if (filter == SGI_OTHERS ? self : filter == SGI_SELF ? !self : !(to >> i & 1))
			continue;
		own(&b->cpus[i])->raised |= 1u << (value & (NR_SGIS - 1));
		if (!self)
			b->turn_end = settle(b);
	}
}

static u64 distributor_read(uc_engine u, u64 offset, unsigned int size, void *data)
{
	struct board *b = data;
	const struct arm64_cpu *c = own(this_cpu(b));

	(void)u, (void)size;
	if (offset >= GICD_ITARGETSR && offset < GICD_ITARGETSR_END)
		return 0x01010101u << b->current;
	switch (offset) {
	case GICD_CTLR:      return devices(b)->distributor;
	case GICD_TYPER:     return (b->nr_cpus - 1) << 5;
	case GICD_IIDR:      return ARM_GICV2;
	case GICD_ISENABLER:
	case GICD_ICENABLER: return c->enabled;
	case GICD_ISPENDR:
	case GICD_ICPENDR:   return c->raised;
	case GICD_ISACTIVER:
	case GICD_ICACTIVER: return c->active;
	}
	return 0;
}

static void distributor_write(uc_engine u, u64 offset, unsigned int size, u64 value, void *data)
{
	struct board *b = data;
	struct arm64_cpu *c = own(this_cpu(b));

	(void)u, (void)size;
	value = (u32)value;
	switch (offset) {
	case GICD_CTLR:      devices(b)->distributor = value; break;
	case GICD_ISENABLER: c->enabled |= value; break;
	case GICD_ICENABLER: c->enabled &= ~value; break;
	case GICD_ISPENDR:   c->raised |= value; break;
	case GICD_ICPENDR:   c->raised &= ~value; break;
	case GICD_ISACTIVER: c->active |= value; break;
	case GICD_ICACTIVER: c->active &= ~value; break;
	case GICD_SGIR:      send(b, value); break;
	}
	set_due(b);
}

static u64 acknowledge(struct board *b)
{
	struct cpu *c = this_cpu(b);
	int irq = lowest(c);

	if (irq == NO_IRQ)
		return irq;
	if (irq < NR_SGIS) /* the timer's stays raised until the timer is set anew */
		own(c)->raised &= ~(1ull << irq);
	own(c)->active |= 1ull << irq;
	own(c)->running = irq + 1;
	set_due(b);
	return irq;
}

static u64 cpu_read(uc_engine u, u64 offset, unsigned int size, void *data)
{
	struct board *b = data;
	const struct arm64_cpu *c = own(this_cpu(b));

	(void)u, (void)size;
	switch (offset) {
	case GICC_CTLR:  return c->control;
	case GICC_PMR:   return c->mask;
	case GICC_IAR:   return acknowledge(b);
	case GICC_RPR:   return c->running ? 0 : IDLE_PRIORITY;
	case GICC_HPPIR: return lowest(this_cpu(b));
	case GICC_IIDR:  return ARM_GICV2;
	}
	return 0;
}

static void cpu_write(uc_engine u, u64 offset, unsigned int size, u64 value, void *data)
{
	struct board *b = data;
	struct arm64_cpu *c = own(this_cpu(b));
	u64 bit = 1ull << (value & 31);

	(void)u, (void)size;
	switch (offset) {
	case GICC_CTLR: c->control = value; break;
	case GICC_PMR:  c->mask = value & 0xff; break;
	case GICC_EOIR:
		c->running = 0;
		if (!(c->control & EOI_KEEPS_ACTIVE))
			c->active &= ~bit;
		break;
	case GICC_DIR: c->active &= ~bit; break;
	}
	set_due(b);
}

bool map_gic(struct board *b)
{
	uc_engine u = engine(b);

	return !uc.mmio_map(u, GIC_BASE, GIC_SIZE, distributor_read, b, distributor_write, b) &&
	       !uc.mmio_map(u, GIC_CPU_BASE, GIC_CPU_SIZE, cpu_read, b, cpu_write, b) &&
	       map_console(b, UART_BASE, UART_SIZE, UART_FLAGS_IDLE) &&
	       map_hole(b, GIC_BASE + GIC_SIZE, GIC_CPU_BASE) &&
	       map_hole(b, GIC_CPU_BASE + GIC_CPU_SIZE, UART_BASE) &&
	       map_hole(b, UART_BASE + UART_SIZE, HOLE_END);
}
