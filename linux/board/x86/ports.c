// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * I/O ports: a clock with a fixed date, a serial port for output, the agent's port, and one
 * counter of the timer chip (PIT), by which kernels that cannot be told the TSC's frequency
 * measure it. It counts down from 65535, whatever it is set to, and sends no interrupt.
 */
#include "x86.h"

#define PORT_PIT 0x42
#define PIT_HZ 1193182
#define PIT_HOUR (3600ull * 1000000000) /* ns; one can be multiplied by PIT_HZ */
#define PORT_CMOS 0x70
#define PORT_CMOS_DATA 0x71
#define PORT_DEBUG 0xe9
#define PORT_SERIAL 0x3f8
#define PORT_SERIAL_STATUS 0x3fd
#define SERIAL_EMPTY 0x60
#define CMOS_CENTURY 0x32
#define TSS_SIZE 104 /* without the bitmap of ports */
#define TSS_BITMAP 102 /* where the offset of the bitmap is */
#define NR_CMOS 16

/* 1 January 2022, 00:00:00. The kernel is told the true time when it starts to run. */
static const u8 cmos[NR_CMOS] = {
	0, 0, 0, 0, 0, 0, 6, 1, 1, 0x22, 0x26, 2, 0, 0x80, 0, 0,
};

static u8 read_pit(struct board *b)
{
	struct x86_devices *d = devices(b);
	u64 past = (settle(b) - d->pit_start) % PIT_HOUR;
	u16 count = 0xffff - past * PIT_HZ / 1000000000;

	d->pit_half ^= 1;
	return d->pit_half ? count : count >> 8;
}

static u32 on_in(uc_engine u, u32 port, int size, void *data)
{
	struct board *b = data;

	(void)u, (void)size;
	switch (port) {
	case PORT_PIT:           return read_pit(b);
	case PORT_SERIAL_STATUS: return SERIAL_EMPTY;
	case PORT_CMOS_DATA:
		if (devices(b)->cmos == CMOS_CENTURY)
			return 0x20;
		return devices(b)->cmos < NR_CMOS ? cmos[devices(b)->cmos] : 0;
	}
	return ~0u;
}

static void on_out(uc_engine u, u32 port, int size, u32 value, void *data)
{
	struct board *b = data;

	(void)u, (void)size;
	switch (port) {
	case PORT_PIT:
		devices(b)->pit_start = settle(b);
		devices(b)->pit_half = 0;
		break;
	case PORT_CMOS:   devices(b)->cmos = value & 0x7f; break;
	case PORT_SERIAL: print(b, value); break;
	case PORT_DEBUG:
		if (b->debug_size < b->debug_limit)
			((u8 *)(uintptr_t)b->debug)[b->debug_size++] = value;
		break;
	}
}

/*
 * Return whether the bitmap in the TSS lets a program use a port, and those behind it. While the
 * host listens to the agent, its port is free: a kernel that is locked down gives no rights.
 */
bool may_use_port(void *data, u32 port, u32 size)
{
	struct board *b = data;
	const struct segment *tss = &state(b)->tr;
	u32 at;

	if (port == PORT_DEBUG && b->debug_limit)
		return true;
	if (tss->limit < TSS_SIZE - 1)
		return false;
	at = (read_word(b, tss->base + TSS_BITMAP) & 0xffff) + port / 8;
	if (at + 1 > tss->limit) /* two bytes are looked at, always */
		return false;
	return !(read_word(b, tss->base + at) >> (port & 7) & ((1u << size) - 1));
}

bool hook_ports(struct board *b)
{
	uc_engine u = engine(b);
	size_t hook;

	b->counter.may_use_port = may_use_port;
	return !uc.hook_add(u, &hook, UC_HOOK_INSN, on_in, b, 1, 0, UC_X86_INS_IN) &&
	       !uc.hook_add(u, &hook, UC_HOOK_INSN, on_out, b, 1, 0, UC_X86_INS_OUT);
}
