// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the hypervisor and its firmware answer (PAPR): a console, interrupts between processors, their
 * start and end, and how the kernel wants to be interrupted. Calls of the firmware (RTAS) come as one
 * hypercall, with a block of big-endian words in memory: number, counts, arguments, results.
 */
#include "ppc64.h"

#define PRIORITY_SHIFT 24 /* above the number of an interrupt, the priority that was before */
#define IPI 2 /* the number of the interrupt that processors send */
#define NO_FLUSHES_NEEDED (7ull << 54) /* when entering and leaving the kernel */
#define IS_RUNNING 2
#define MOST_WORDS 16
#define RTAS_HEAD 12
#define TREES 12 /* the table's size counts from there, as a power of 2 */

#define FUNCTION (-2ull) /* errors: no such call */
#define PARAMETER (-4ull)
#define RTAS_ERROR (-3u)

enum {
	H_GET_TERM_CHAR = 0x54,
	H_PUT_TERM_CHAR = 0x58,
	H_EOI = 0x64,
	H_CPPR = 0x68,
	H_IPI = 0x6c,
	H_IPOLL = 0x70,
	H_XIRR = 0x74,
	H_REGISTER_VPA = 0xdc,
	H_CEDE = 0xe0,
	H_CONFER = 0xe4,
	H_PROD = 0xe8,
	H_GET_CPU_CHARACTERISTICS = 0x1c8,
	H_XIRR_X = 0x2fc,
	H_SET_MODE = 0x31c,
	H_REGISTER_PROCESS_TABLE = 0x37c,
	H_RTAS = 0xf000,
};
enum { SET_RELOCATED = 3, SET_BYTE_ORDER };

/* The date at the kernel's start: year, month, day; hour, minute, second and ns are 0. */
static const u32 date[] = { 2026, 1, 1 };

/* Make a call of the firmware; return its first result. in, out: further words in memory. */
static u32 call_firmware(struct board *b, u32 number, u64 in, u64 out)
{
	switch (number) {
	case RTAS_DISPLAY: print(b, get32(in)); return 0;
	case RTAS_GET_TIME:
		for (u64 i = 0; i < sizeof(date) / 4; i++)
			put32(out + 4 * i, date[i]);
		return 0;
	case RTAS_POWER_OFF:
	case RTAS_REBOOT:
		for (u64 i = 0; i < b->nr_cpus; i++)
			turn_off(b, &b->cpus[i]);
		return 0;
	case RTAS_START_CPU:
		return turn_on_with(b, get32(in), get32(in + 4), get32(in + 8)) ? 0 : RTAS_ERROR;
	case RTAS_CPU_STATE:
		if (get32(in) >= b->nr_cpus)
			return RTAS_ERROR;
		put32(out, b->cpus[get32(in)].state == CPU_OFF ? 0 : IS_RUNNING);
		return 0;
	case RTAS_STOP_SELF:     turn_off(b, this_cpu(b)); return 0;
	case RTAS_GET_INTERRUPT: put32(out + 4, NO_MESSAGE); return 0;
	}
	/* the others that the device tree names have nothing to do */
	return number && number <= RTAS_INTERRUPT_ON ? 0 : RTAS_ERROR;
}

static u64 firmware(struct board *b, u64 at)
{
	u64 block = b->ram + at, out;
	u32 words, results;

	if (at > b->ram_size - RTAS_HEAD - 4 * 2 * MOST_WORDS)
		return PARAMETER;
	words = get32(block + 4);
	results = get32(block + 8);
	if (words > MOST_WORDS || !results || results > MOST_WORDS)
		return PARAMETER;
	out = block + RTAS_HEAD + 4 * words;
	__builtin_memset((void *)out, 0, 4 * results);
	put32(out, call_firmware(b, get32(block), block + RTAS_HEAD, out + 4));
	return 0;
}

/* Print up to 16 bytes, which two registers hold. */
static void put_text(struct board *b, const u64 *words, u64 size)
{
	for (u64 i = 0; i < size && i < 16; i++)
		print(b, words[i / 8] >> (56 - i % 8 * 8));
}

static u64 send(struct board *b, u64 number, u64 priority)
{
	if (number >= b->nr_cpus)
		return PARAMETER;
	own(&b->cpus[number])->message = priority & NO_MESSAGE;
	notify(b, &b->cpus[number]);
	return 0;
}

/* Return the interrupt that is taken now, or none, and the priority before it. */
static u64 accept(struct board *b)
{
	struct cpu *c = this_cpu(b);
	u64 before = own(c)->priority << PRIORITY_SHIFT;

	if (!is_sent(c))
		return before;
	own(c)->priority = own(c)->message;
	own(c)->taken = true;
	set_due(b);
	return before | IPI;
}

/* Wait for an interrupt. Hypervisors enable them for that. */
static u64 wait(struct board *b)
{
	struct ppc64_cpu *o = own(this_cpu(b));

	set_msr(state(b), state(b)->msr | MSR_EE);
	if (!o->prodded)
		uc.emu_stop(engine(b));
	o->prodded = false;
	return 0;
}

static u64 prod(struct board *b, u64 number)
{
	struct cpu *c = &b->cpus[number];

	if (number >= b->nr_cpus)
		return PARAMETER;
	if (c->state == CPU_HALTED)
		c->state = CPU_RUNS;
	else
		own(c)->prodded = true;
	return 0;
}

static u64 set_mode(struct board *b, u64 mode, u64 what)
{
	if (what == SET_BYTE_ORDER)
		devices(b)->little_endian = mode & 1;
	else if (what == SET_RELOCATED)
		devices(b)->relocated = mode;
	else
		return PARAMETER;
	return 0;
}

/* Make the call of r3, with arguments from r4 on; return what r3 is to be. */
u64 hypercall(struct board *b)
{
	u64 *r = state(b)->gpr;
	struct ppc64_cpu *o = own(this_cpu(b));

	switch (r[3]) {
	case H_RTAS:          return firmware(b, r[4]);
	case H_PUT_TERM_CHAR: put_text(b, r + 6, r[5]); return 0;
	case H_GET_TERM_CHAR: r[4] = r[5] = r[6] = 0; return 0;
	case H_EOI:
		if ((r[4] & ((1u << PRIORITY_SHIFT) - 1)) == IPI)
			o->taken = false;
		o->priority = r[4] >> PRIORITY_SHIFT & NO_MESSAGE;
		set_due(b);
		return 0;
	case H_CPPR:
		o->priority = r[4] & NO_MESSAGE;
		set_due(b);
		return 0;
	case H_IPI: return send(b, r[4], r[5]);
	case H_IPOLL:
		r[4] = o->priority << PRIORITY_SHIFT | (is_sent(this_cpu(b)) ? IPI : 0);
		r[5] = o->message;
		return 0;
	case H_XIRR:
	case H_XIRR_X:
		r[4] = accept(b);
		r[5] = settle(b);
		return 0;
	case H_REGISTER_VPA: return 0;
	case H_CEDE:         return wait(b);
	case H_CONFER:       board_stop(b, STOP_NEXT, HERE); return 0;
	case H_PROD:         return prod(b, r[4]);
	case H_GET_CPU_CHARACTERISTICS:
		r[4] = 0;
		r[5] = NO_FLUSHES_NEEDED;
		return 0;
	case H_SET_MODE: return set_mode(b, r[4], r[5]);
	case H_REGISTER_PROCESS_TABLE:
		devices(b)->table = r[5];
		devices(b)->table_size = 1ull << (TREES + (r[7] & 31));
		flush_all(b);
		return 0;
	}
	return FUNCTION;
}
