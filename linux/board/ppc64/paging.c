// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The page tables of ppc64 (radix trees), and libunicorn's translations of addresses.
 *
 * libunicorn has these tables for hypervisors alone. So the board walks them itself, from the
 * process table that the kernel has registered: process 0 is the kernel.
 *
 * Kernels patch text through a mapping of a process that exists for that alone, which is a hundred
 * thousand switches in a boot. libunicorn would forget everything at each. Only addresses of programs
 * mean something else then. The board notes the pages of them that the kernel itself has touched,
 * as these are mostly one or two.
 */
#include "ppc64.h"

#define PAGE 4096ull
#define REAL_BITS 0x0fffffffffffffffull
#define QUADRANT 62 /* bits of an address below those that choose a tree */
#define ENTRY_SIZE 16 /* in the process table */

/* bits of entries */
#define VALID (1ull << 63)
#define LEAF (1ull << 62)
#define NEXT_TABLE 0x0fffffffffffff00ull
#define PLACE 0x01fffffffffff000ull
#define REFERENCED 0x100ull
#define CHANGED 0x80ull
#define ATTRIBUTES 0x30ull
#define NOT_IDEMPOTENT 0x20ull
#define PRIVILEGED 8ull
#define READ 4ull
#define READ_WRITE 2ull
#define EXECUTE 1ull

/* causes, as DSISR and SRR1 have them */
#define NO_ENTRY 0x40000000u
#define NO_RIGHT 0x08000000u
#define NO_CODE 0x10000000u
#define IS_STORE 0x02000000u

/* the operand of tlbie: how much is meant, and of which size pages are */
#define NOT_ONE_PAGE 0xc00
#define PAGE_SIZE_BITS 0xe0
#define PAGES_OF_64K 0xa0

IMPORT(void, flush_modes, tlb_flush_by_mmuidx_ppc64, (void *processor, u16 modes));
IMPORT(void, flush_page, tlb_flush_page_ppc64, (void *processor, u64 addr));
IMPORT(void, flush_page_of, tlb_flush_page_by_mmuidx_ppc64, (void *processor, u64 addr, u16 modes));
IMPORT(void, raise, raise_exception_err_ra_ppc64, /* does not return */
       (state_t *s, u32 exception, u32 error, uintptr_t from));
static fill_tlb *original_fill;

/* Return the host's address of an entry, or 0. */
static u64 entry_at(const struct board *b, u64 at)
{
	return at <= b->ram_size - ENTRY_SIZE ? b->ram + at : 0;
}

/* Find the entry that maps an address, by the host's; return 0, or the cause of a fault. */
static u32 find(const struct board *b, u64 addr, u64 *at, u64 *entry)
{
	u64 process = addr >> QUADRANT ? 0 : state(b)->spr[PID], place, word;
	int bits, step;

	if (process >= devices(b)->table_size / ENTRY_SIZE ||
	    !(place = entry_at(b, devices(b)->table + ENTRY_SIZE * process)))
		return NO_ENTRY;
	word = get64(place);
	bits = 31 + ((word >> 58 & 0x18) | (word >> 5 & 7));
	addr &= (1ull << QUADRANT) - 1;
	if (addr >> bits)
		return NO_ENTRY;
	do {
		step = word & 31;
		if (step < 5 || step > bits)
			return NO_ENTRY;
		bits -= step;
		place = entry_at(b,
				 (word & NEXT_TABLE) + 8 * (addr >> bits & ((1ull << step) - 1)));
		if (!place || !((word = get64(place)) & VALID))
			return NO_ENTRY;
	} while (!(word & LEAF));
	*at = (word & PLACE & -(1ull << bits)) | (addr & ((1ull << bits) - 1));
	*entry = place;
	return 0;
}

u64 board_walk(const struct board *b, u64 addr)
{
	u64 at, entry;

	if (!devices(b)->table || (!(addr >> QUADRANT) && !(state(b)->msr & MSR_DR)))
		return addr & REAL_BITS;
	return find(b, addr, &at, &entry) ? NEVER : at;
}

void flush_all(struct board *b)
{
	own(this_cpu(b))->nr_touched = 0;
	uc.ctl(engine(b), UC_CTL_TLB_FLUSH);
}

/* Another program's addresses are meant from now on. The kernel's own stay. */
static void switch_program(state_t *s, u64 number)
{
	struct board *b = board_of(s);
	struct ppc64_cpu *o = own(this_cpu(b));

	if (s->spr[PID] == number)
		return;
	s->spr[PID] = number;
	if (o->user_filled)
		flush_modes(processor(b), 1);
	o->user_filled = false;
	if (o->nr_touched > NR_TOUCHED)
		flush_modes(processor(b), 1 << KERNEL_MODE);
	else
		for (u64 i = 0; i < o->nr_touched; i++)
			flush_page_of(processor(b), o->touched[i], 1 << KERNEL_MODE);
	o->nr_touched = 0;
}

static void invalidate_page(state_t *s, u64 operand)
{
	void *cpu = processor(board_of(s));

	if (operand & NOT_ONE_PAGE ||
	    (operand & PAGE_SIZE_BITS && (operand & PAGE_SIZE_BITS) != PAGES_OF_64K)) {
		flush_modes(cpu, 1 | 1 << KERNEL_MODE);
	} else if (operand & PAGE_SIZE_BITS) {
		for (u64 i = 0; i < 16; i++)
			flush_page(cpu, (operand & -16 * PAGE) + i * PAGE);
	} else {
		flush_page(cpu, operand & -PAGE);
	}
}

/* libunicorn notes the need where the kernel invalidates, and flushes everything later. */
static void flushed(state_t *s)
{
	s->need_flush = 0;
}

/* Return the rights to a page, or put the cause of a fault into cause. */
static int rights_of(u64 word, int access, int mode, u32 *cause)
{
	static const int needed[] = { CAN_READ, CAN_WRITE, CAN_EXECUTE };
	int rights = (word & READ ? CAN_READ : 0) | (word & READ_WRITE ? CAN_READ | CAN_WRITE : 0) |
		     (word & EXECUTE ? CAN_EXECUTE : 0);

	if (mode != KERNEL_MODE && word & PRIVILEGED)
		rights = 0;
	if (access == FETCH && (word & ATTRIBUTES) == NOT_IDEMPOTENT)
		*cause = NO_CODE;
	else if (!(rights & needed[access]))
		*cause = NO_RIGHT;
	return rights;
}

/* Note that a page is used; return the rights that need no further note. */
static int use(u64 entry, int access, int rights)
{
	u64 word = get64(entry), now = word | REFERENCED | (access == STORE ? CHANGED : 0);

	if (now != word)
		put64(entry, now);
	return now & CHANGED ? rights : rights & ~CAN_WRITE;
}

static void touch(struct board *b, u64 addr, int mode)
{
	struct ppc64_cpu *o = own(this_cpu(b));

	if (mode != KERNEL_MODE)
		o->user_filled = true;
	else if (!(addr >> QUADRANT) && o->nr_touched < NR_TOUCHED)
		o->touched[o->nr_touched++] = addr & -PAGE;
	else if (!(addr >> QUADRANT))
		o->nr_touched = NR_TOUCHED + 1;
}

static __attribute__((noreturn)) void fault(state_t *s, u64 addr, int access, u32 cause,
					    uintptr_t from)
{
	bool no_segment = addr >> QUADRANT == 1 || addr >> QUADRANT == 2;

	if (access == FETCH) {
		raise(s, no_segment ? CODE_SEGMENT : CODE_STORAGE, cause, from);
	} else {
		s->spr[DAR] = addr;
		if (!no_segment)
			s->spr[DSISR] = cause | (access == STORE ? IS_STORE : 0);
		raise(s, no_segment ? DATA_SEGMENT : DATA_STORAGE, 0, from);
	}
	__builtin_unreachable();
}

static bool fill(void *cpu, u64 addr, int size, int access, int mode, bool probe, uintptr_t from)
{
	state_t *s = AT(state_t *, cpu, STATE);
	struct board *b = board_of(s);
	int rights = CAN_READ | CAN_WRITE | CAN_EXECUTE;
	u64 at = addr & REAL_BITS, entry;
	u32 cause = 0;

	if (!b && !(mode & REAL_MODE))
		return original_fill(cpu, addr, size, access, mode, probe, from);
	if (!(mode & REAL_MODE)) {
		if (addr >> QUADRANT == 1 || addr >> QUADRANT == 2)
			cause = NO_ENTRY;
		else
			cause = find(b, addr, &at, &entry);
		if (!cause)
			rights = rights_of(get64(entry), access, mode, &cause);
		if (cause && probe)
			return false;
		if (cause)
			fault(s, addr, access, cause, from);
		rights = use(entry, access, rights);
		touch(b, addr, mode);
	}
	return fill_page(cpu, addr, at, rights, access, mode);
}

REPLACE(helper_store_pidr_ppc64, switch_program);
REPLACE(helper_tlbie_ppc64, invalidate_page);
REPLACE(helper_check_tlb_flush_local_ppc64, flushed);
REPLACE(helper_check_tlb_flush_global_ppc64, flushed);
REPLACE(helper_slbia, ignored);
REPLACE_TOO(ppc_cpu_tlb_fill_ppc64, fill, original_fill);
