// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * System registers: clock, timer, and the instructions that say that code has changed.
 *
 * libunicorn takes the host's clock for CNTVCT, ignores writes to the timer, and does nothing
 * for IC. So functions of the board take the place of its own in its table of registers.
 */
#include "arm64.h"

/* In a row of the table, struct ARMCPRegInfo. */
#define ROW_CRN 9 /* with CRm, op0, op1 and op2 in the bytes behind it */
#define ROW_TYPE 0x14
#define ROW_DATA 0x20
#define ROW_READ 0x50
#define ROW_WRITE 0x58
#define ROW_FIELD 0x30 /* where the state has it */
#define TYPE_NO_RAW 0x80
#define TYPE_64_BIT 4
#if BITS == 32 /* of coprocessor 15, not secure */
#define KEY(op0, op1, crn, crm, op2) \
	(1u << 29 | 15u << 16 | (op0) << 15 | (crn) << 11 | (crm) << 7 | (op1) << 3 | (op2))
#else
#define KEY(op0, op1, crn, crm, op2) \
	(1u << 28 | 0x13u << 16 | (op0) << 14 | (op1) << 11 | (crn) << 7 | (crm) << 3 | (op2))
#endif

#define TIMER_ENABLE 1
#define TIMER_MASKED 2
#define TIMER_STATUS 4
#define CACHE_LINE 64
#define PAGE_OFFSET 4095ull

typedef u64 read_register(void *state, const u8 *row);
typedef void write_register(void *state, const u8 *row, u64 value);

IMPORT(u8 *, get_register, get_arm_cp_reginfo_aarch64, (void *registers, u32 key));
IMPORT(u64, physical_page, arm_cpu_get_phys_page_attrs_debug_aarch64,
       (void *cpu, u64 addr, u32 *attributes));

static struct board *board_of(const u8 *row)
{
	return FIELD(struct board *, row + ROW_DATA);
}

static void set_timer(struct board *b)
{
	struct cpu *c = this_cpu(b);

	own(c)->raised &= ~(1ull << TIMER_IRQ);
	c->timer = (own(c)->timer_control & (TIMER_ENABLE | TIMER_MASKED)) == TIMER_ENABLE ?
			   own(c)->timer_at :
			   NEVER;
	set_due(b);
}

static u64 read_frequency(void *state, const u8 *row)
{
	(void)state, (void)row;
	return CLOCK_HZ;
}

static u64 read_clock(void *state, const u8 *row)
{
	(void)state;
	return read_time(board_of(row));
}

static u64 read_control(void *state, const u8 *row)
{
	struct board *b = board_of(row);
	const struct arm64_cpu *c = own(this_cpu(b));
	bool is_due = c->timer_control & TIMER_ENABLE && settle(b) >= c->timer_at;

	(void)state;
	return c->timer_control | (is_due ? TIMER_STATUS : 0);
}

static void write_control(void *state, const u8 *row, u64 value)
{
	struct board *b = board_of(row);

	(void)state;
	own(this_cpu(b))->timer_control = value & (TIMER_ENABLE | TIMER_MASKED);
	set_timer(b);
}

static u64 read_compare(void *state, const u8 *row)
{
	(void)state;
	return own(this_cpu(board_of(row)))->timer_at;
}

static void write_compare(void *state, const u8 *row, u64 value)
{
	struct board *b = board_of(row);

	(void)state;
	own(this_cpu(b))->timer_at = value;
	set_timer(b);
}

static u64 read_left(void *state, const u8 *row)
{
	return (u32)(read_compare(state, row) - settle(board_of(row)));
}

static void write_left(void *state, const u8 *row, u64 value)
{
	write_compare(state, row, settle(board_of(row)) + (int64_t)(int32_t)value);
}

static void flush_all(void *state, const u8 *row, u64 value)
{
	struct board *b = board_of(row);

	(void)state, (void)value;
	if (BITS == 32 && b->tracks) /* the kernel does this for each page of code that is mapped */
		return;
	b->flushes++;
	uc.ctl(engine(b), UC_CTL_TB_FLUSH);
}

/*
 * Drop what was translated from a line of code. It is found by its place in RAM, as the address
 * is often one where the code cannot run: uc_ctl() would do nothing then.
 */
static void flush_line(void *state, const u8 *row, u64 value)
{
	struct board *b = board_of(row);
	u32 attributes = 0;
	u64 addr = value & ~(u64)(CACHE_LINE - 1);
	u64 at = physical_page(processor(b), addr & ~PAGE_OFFSET, &attributes);

	if (at == NEVER || at >= b->ram_size) {
		flush_all(state, row, value);
		return;
	}
	drop_code(b, at + (addr & PAGE_OFFSET), CACHE_LINE);
}

static bool patch(struct board *b, u32 key, read_register *read, write_register *write)
{
	void *table = FIELD(void *, b->state + ARM64_REGISTERS);
	u8 *row = get_register(table, key);

	u32 is_long = row ? FIELD(u32, row + ROW_TYPE) & TYPE_64_BIT : 0;

	/* is it a row, and this one? */
	if (!row || KEY(BITS == 32 ? is_long / TYPE_64_BIT : row[ROW_CRN + 2], row[ROW_CRN + 3],
			row[ROW_CRN], row[ROW_CRN + 1], row[ROW_CRN + 4]) != key)
		return false;
	FIELD(u32, row + ROW_TYPE) = TYPE_NO_RAW | is_long;
	FIELD(struct board *, row + ROW_DATA) = b;
	FIELD(read_register *, row + ROW_READ) = read;
	FIELD(write_register *, row + ROW_WRITE) = write;
	return true;
}

#if BITS == 32
#define DOMAIN_USER_OPEN 4u

static write_register *set_domains;

/*
 * The kernel takes a program's memory away from itself by DACR at each entry and exit, and libunicorn
 * forgets all translations of addresses then. Here the domain of programs stays open; the kernel reads
 * what it wrote.
 */
static u64 read_domains(void *state, const u8 *row)
{
	(void)state;
	return own(this_cpu(board_of(row)))->domains;
}

static void write_domains(void *state, const u8 *row, u64 value)
{
	u64 place = (uintptr_t)state + FIELD(u64, row + ROW_FIELD);

	own(this_cpu(board_of(row)))->domains = (u32)value;
	value = (u32)value | DOMAIN_USER_OPEN;
	if (FIELD(u32, place) != value)
		set_domains(state, row, value);
}

bool patch_registers(struct board *b)
{
	const u32 domains = KEY(0, 0, 3, 0, 0);
	u8 *row = get_register(FIELD(void *, b->state + ARM64_REGISTERS), domains);

	if (!row)
		return false;
	set_domains = FIELD(write_register *, row + ROW_WRITE);
	return patch(b, domains, read_domains, write_domains) &&
	       patch(b, KEY(0, 0, 14, 0, 0), read_frequency, NULL) &&
	       patch(b, KEY(1, 0, 0, 14, 0), read_clock, NULL) &&      /* CNTPCT */
	       patch(b, KEY(1, 1, 0, 14, 0), read_clock, NULL) &&      /* CNTVCT */
	       patch(b, KEY(0, 0, 14, 3, 0), read_left, write_left) && /* CNTV_TVAL */
	       patch(b, KEY(0, 0, 14, 3, 1), read_control, write_control) &&
	       patch(b, KEY(1, 3, 0, 14, 0), read_compare, write_compare) && /* CNTV_CVAL */
	       patch(b, KEY(0, 0, 7, 5, 1), NULL, flush_line) &&             /* ICIMVAU */
	       patch(b, KEY(0, 0, 7, 5, 0), NULL, flush_all) &&              /* ICIALLU */
	       patch(b, KEY(0, 0, 7, 1, 0), NULL, flush_all);                /* ICIALLUIS */
}
#else
bool patch_registers(struct board *b)
{
	return patch(b, KEY(3, 3, 14, 0, 0), read_frequency, NULL) &&
	       patch(b, KEY(3, 3, 14, 0, 1), read_clock, NULL) &&      /* CNTPCT */
	       patch(b, KEY(3, 3, 14, 0, 2), read_clock, NULL) &&      /* CNTVCT */
	       patch(b, KEY(3, 3, 14, 3, 0), read_left, write_left) && /* CNTV_TVAL */
	       patch(b, KEY(3, 3, 14, 3, 1), read_control, write_control) &&
	       patch(b, KEY(3, 3, 14, 3, 2), read_compare, write_compare) &&
	       patch(b, KEY(1, 3, 7, 5, 1), NULL, flush_line) && /* IC IVAU */
	       patch(b, KEY(1, 0, 7, 5, 0), NULL, flush_all) &&  /* IC IALLU */
	       patch(b, KEY(1, 0, 7, 1, 0), NULL, flush_all);    /* IC IALLUIS */
}
#endif
