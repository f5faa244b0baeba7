// SPDX-License-Identifier: GPL-2.0-or-later
/* I/O ports: a clock with a fixed date, a serial port for output, and the agent's port. */
#include "x86.h"

#define PORT_CMOS 0x70
#define PORT_CMOS_DATA 0x71
#define PORT_DEBUG 0xe9
#define PORT_SERIAL 0x3f8
#define PORT_SERIAL_STATUS 0x3fd
#define SERIAL_EMPTY 0x60
#define CMOS_CENTURY 0x32
#define NR_CMOS 16

/* 1 January 2022, 00:00:00. The kernel is told the true time when it starts to run. */
static const u8 cmos[NR_CMOS] = {
	0, 0, 0, 0, 0, 0, 6, 1, 1, 0x22, 0x26, 2, 0, 0x80, 0, 0,
};

static u32 on_in(uc_engine u, u32 port, int size, void *data)
{
	const struct board *b = data;

	(void)u, (void)size;
	switch (port) {
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
	case PORT_CMOS:   devices(b)->cmos = value & 0x7f; break;
	case PORT_SERIAL: print(b, value); break;
	case PORT_DEBUG:
		if (b->debug_size < b->debug_limit)
			((u8 *)(uintptr_t)b->debug)[b->debug_size++] = value;
		break;
	}
}

bool hook_ports(struct board *b)
{
	uc_engine u = engine(b);
	size_t hook;

	return !uc.hook_add(u, &hook, UC_HOOK_INSN, on_in, b, 1, 0, UC_X86_INS_IN) &&
	       !uc.hook_add(u, &hook, UC_HOOK_INSN, on_out, b, 1, 0, UC_X86_INS_OUT);
}
