// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The page tables of s390x, and libunicorn's translations of addresses.
 *
 * Kernel and programs have spaces of their own, whose addresses overlap: the kernel's is the home
 * space (CR13), a program's the primary one (CR1), which the kernel reads as the secondary one
 * (CR7). libunicorn forgets all translations whenever a control register is loaded. The kernel
 * changes CR1 twice in each system call, but that matters only when a program goes on: so those of
 * the primary space are forgotten there, and only if it is another space.
 *
 * The kernel lets nobody map memory that is not its own. So the region is not mapped by its tables:
 * the agent reserves the addresses, without any right to them, and the board translates them for
 * the agent's space alone.
 */
#include "../../agent/region.h"
#include "s390x.h"

#define INVALID 0x20
#define PAGE_INVALID 0x400
#define IS_LARGE 0x400 /* in an entry of a segment or region table */
#define REAL_SPACE 0x20
#define LONGEST_ACCESS 16
#define EXECUTE 0x44 /* opcodes that run another instruction */
#define EXECUTE_RELATIVE 0xc6
#define PAGE 4096ull
#define AGENT_SPACE_SHIFT 41 /* all addresses of the agent and its region have the same bits above */
#define ALL_SPACES 15
#define SPACE_OF_PROGRAMS 0x800 /* in r2 of idte: one address space is meant */
#define SEGMENT_SHIFT 20
#define STEP 11 /* bits of an address below each level */
#define EXCEPTION_ADDRESS 0xa8
#define PROTECTED 512 /* bytes of each page of the lowcore */
/* libunicorn's TLB: a mask and a table for each space, in words before the state; its entries */
#define TLB_BEFORE 10
#define TLB_ENTRY 64
#define TLB_WRITE 8
#define TLB_INVALID 0x800
#define TLB_CHECKED 0x400ull /* stores may be to code */

IMPORT(u64, load_word, cpu_ldq_data_ra_s390x, (state_t * s, u64 addr, uintptr_t from));
IMPORT(void, set_exception, trigger_pgm_exception, (state_t * s, u32 code));
IMPORT(void, leave_from, cpu_loop_exit_restore_s390x, (void *processor, uintptr_t from));
IMPORT(void, flush_spaces, tlb_flush_by_mmuidx_s390x, (void *processor, u16 spaces));
IMPORT(int, translate, mmu_translate,
       (state_t * s, u64 addr, int access, u64 space, u64 *at, int *rights, u64 *why));
IMPORT(int, translate_real, mmu_translate_real,
       (state_t * s, u64 addr, int access, u64 *at, int *rights, u64 *why));
static fill_tlb *original_fill;
static void (*original_idte)(state_t *s, u64 r1, u64 r2, u32 m4);

/* Return the absolute address of a real one. */
u64 absolute(const struct board *b, u64 real)
{
	u64 prefix = state(b)->prefix;

	if (real < LOWCORE_SIZE)
		return real + prefix;
	return real - prefix < LOWCORE_SIZE ? real - prefix : real;
}

static bool is_shared(const struct board *b, u64 addr, u64 table)
{
	return addr - REGION_BASE < REGION_SIZE && devices(b)->space &&
	       !((table ^ devices(b)->space) & -PAGE);
}

static u64 walk_table(const struct board *b, u64 addr, u64 table)
{
	int shift = SEGMENT_SHIFT + STEP * (table >> 2 & 3);

	if (is_shared(b, addr, table))
		return addr - REGION_BASE + REGION_PHYS;
	if (table & REAL_SPACE)
		return absolute(b, addr);
	if (shift < 53 && addr >> (shift + STEP))
		return NEVER;
	for (table &= -PAGE; shift >= SEGMENT_SHIFT; shift -= STEP) {
		u64 at = table + 8 * (addr >> shift & 0x7ff), entry, mask = (1ull << shift) - 1;

		if (at > b->ram_size - 8)
			return NEVER;
		entry = get64(b->ram + at);
		if (entry & INVALID)
			return NEVER;
		if (shift <= SEGMENT_SHIFT + STEP && entry & IS_LARGE)
			return (entry & ~mask) | (addr & mask);
		table = entry & (shift == SEGMENT_SHIFT ? ~0x7ffull : -PAGE);
	}
	table += 8 * (addr >> 12 & 0xff);
	if (table > b->ram_size - 8 || get64(b->ram + table) & PAGE_INVALID)
		return NEVER;
	return absolute(b, (get64(b->ram + table) & -PAGE) | (addr & (PAGE - 1)));
}

u64 walk(const struct board *b, u64 addr, int space)
{
	return space == REAL ? absolute(b, addr) : walk_table(b, addr, state(b)->cr[CR_OF(space)]);
}

/* Addresses are the kernel's, but for those of the agent, which no kernel has. */
u64 board_walk(const struct board *b, u64 addr)
{
	if (addr >> AGENT_SPACE_SHIFT == REGION_BASE >> AGENT_SPACE_SHIFT)
		return walk_table(b, addr, devices(b)->space ? devices(b)->space : state(b)->cr[1]);
	return state(b)->cr[13] ? walk(b, addr, HOME) : absolute(b, addr);
}

u64 board_walk_in(const struct board *b, u64 addr, int space)
{
	if (space == SPACE_AGENT && devices(b)->space)
		return walk_table(b, addr, devices(b)->space);
	if (space == SPACE_PROGRAM)
		return walk(b, addr, in_program(b) ? PRIMARY : SECONDARY);
	return board_walk(b, addr);
}

static void forget(struct board *b, u16 spaces)
{
	flush_spaces(processor(b), spaces);
}

/* A program may go on: its addresses are those of CR1. */
void enter_space(struct board *b)
{
	const state_t *s = state(b);

	if ((s->mask & (PSW_DAT | PSW_SPACE)) != PSW_DAT || s->cr[1] == devices(b)->primary)
		return;
	devices(b)->primary = s->cr[1];
	forget(b, 1 << PRIMARY);
}

static void load_control(state_t *s, u32 first, u64 at, u32 last)
{
	struct board *b = board_of(s);
	u32 count = ((last - first) & 15) + 1;
	u64 values[16];
	u16 spaces = 0;

	if (at & 7)
		raise(s, PGM_SPECIFICATION, CALLER);
	for (u32 i = 0; i < count; i++) /* it may fault, and then nothing has changed */
		values[i] = load_word(s, at + 8 * i, CALLER);
	for (u32 i = 0; i < count; i++) {
		u32 number = (first + i) & 15;

		if (s->cr[number] == values[i])
			continue;
		s->cr[number] = values[i];
		if (number == 0)
			spaces = ALL_SPACES;
		else if (number == CR_OF(SECONDARY))
			spaces |= 1 << SECONDARY;
		else if (number == CR_OF(HOME))
			spaces |= 1 << HOME;
	}
	if (spaces)
		forget(b, spaces);
	enter_space(b);
	own(this_cpu(b))->enabled = s->cr[0];
	set_timer(b);
}

static void invalidate_table(state_t *s, u64 r1, u64 r2, u32 m4)
{
	if (r2 & SPACE_OF_PROGRAMS && ((r1 ^ s->cr[CR_OF(HOME)]) & -PAGE))
		forget(board_of(s), 1 << PRIMARY | 1 << SECONDARY);
	else
		original_idte(s, r1, r2, m4);
}

static u32 length_of(u32 opcode)
{
	return opcode >> 6 == 0 ? 2 : opcode >> 6 == 3 ? 6 : 4;
}

/*
 * A block that has an illegal instruction alone is empty for libunicorn, which looks up its last
 * byte: at the begin of a page, that is in another one.
 */
static void refuse_empty_block(struct board *b, u64 addr, int space)
{
	u64 at = walk(b, state(b)->addr, space);
	u8 opcode = at < b->ram_size ? *(u8 *)(b->ram + at) : EXECUTE;

	if (state(b)->addr & (PAGE - 1) || addr != state(b)->addr - PAGE || opcode == EXECUTE ||
	    opcode == EXECUTE_RELATIVE)
		return;
	state(b)->pgm_length = length_of(opcode);
	set_exception(state(b), PGM_OPERATION);
	leave(processor(b));
}

static int find(struct board *b, u64 addr, int size, int access, int space, u64 *at, int *rights,
		u64 *why)
{
	state_t *s = state(b);
	/* behind an unaligned store to a protected page libunicorn asks for "the next one" */
	bool unprotected = addr < LOWCORE_SIZE && size > LONGEST_ACCESS &&
			   s->cr[0] & CR0_LOW_PROTECTION;
	int code;

	if (space != REAL && is_shared(b, addr, s->cr[CR_OF(space)])) {
		*at = addr - REGION_BASE + REGION_PHYS;
		*rights = CAN_READ | CAN_WRITE;
		return 0;
	}
	if (unprotected)
		s->cr[0] &= ~CR0_LOW_PROTECTION;
	if (space == REAL)
		code = translate_real(s, addr, access, at, rights, why);
	else
		code = translate(s, addr, access, (u64)(space == PRIMARY ? 0 : space + 1) << 46, at,
				 rights, why);
	if (unprotected)
		s->cr[0] |= CR0_LOW_PROTECTION;
	return !code && *at >= b->ram_size ? PGM_ADDRESSING : code;
}

/*
 * Return whether the TLB has an entry for a store to a page whose first bytes are protected, and to
 * others of it. Such an entry is kept invalid, so that libunicorn asks before each store; it goes by
 * what the entry says all the same.
 */
static bool is_beside_protected(const state_t *s, u64 addr, int access, int space)
{
	const u64 *tlb = (const u64 *)s - TLB_BEFORE + 2 * space;
	u64 page = addr & -PAGE, mask = tlb[0] / TLB_ENTRY;
	u64 at = tlb[1] + ((addr / PAGE) & mask) * TLB_ENTRY + TLB_WRITE;

	return access == STORE && addr < LOWCORE_SIZE && addr - page >= PROTECTED &&
	       (*(const u64 *)(uintptr_t)at & ~TLB_CHECKED) == (page | TLB_INVALID);
}

static bool fill(void *cpu, u64 addr, int size, int access, int space, bool probe, uintptr_t from)
{
	state_t *s = AT(state_t *, cpu, STATE);
	struct board *b = board_of(s);
	u64 at, why = 0;
	int rights, code;

	if (!b)
		return original_fill(cpu, addr, size, access, space, probe, from);
	if ((s->mask & PSW_64) != PSW_64)
		addr &= 0x7fffffff;
	if (space == PRIMARY && s->cr[1] != devices(b)->primary) {
		devices(b)->primary = s->cr[1];
		forget(b, 1 << PRIMARY);
	}
	if (is_beside_protected(s, addr, access, space))
		return true;
	if (access == FETCH && !from && !probe)
		refuse_empty_block(b, addr, space);
	code = find(b, addr, size, access, space, &at, &rights, &why);
	if (!code)
		return fill_page(cpu, addr, at, rights, access, space);
	if (probe)
		return false;
	if (access == FETCH && !from && end_step(b))
		leave(cpu);
	if (code != PGM_ADDRESSING)
		put64(lowcore(b) + EXCEPTION_ADDRESS, why);
	s->pgm_length = 2;
	set_exception(s, code);
	leave_from(cpu, from);
	return false;
}

REPLACE(helper_lctlg, load_control);
REPLACE_TOO(helper_idte, invalidate_table, original_idte);
REPLACE_TOO(s390_cpu_tlb_fill, fill, original_fill);
