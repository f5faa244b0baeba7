// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * How processors of mips64 start and take turns, their clocks, and what is replaced.
 *
 * The kernel sets the clocks of all processors about equal, and takes a difference for a jump by the
 * whole range of 32 bits. So they are one, and cannot be set.
 */
#include "mips64.h"

#define COUNT_RANGE (1ull << 32)
#define MAX_BLOCK 100 /* instructions; of 512, libunicorn's translator crashes */
#define RDHWR_CLOCK 4 /* the bit of HWREna */
#define IN_KERNEL(hflags) ((hflags) & 4)

/* what a 5KEf has not: its registers tell of a TLB of 128 entries, and of a thread pointer */
#define NR_ENTRIES 128
#define CONFIG1_ENTRIES (63u << 25)
#define CONFIG3_ULRI (1u << 13)
#define CONFIG3_MANAGER (1u << 29)
#define MANAGER_SHIFT 4
#define CONFIG3_MORE (1u << 31)
#define CONFIG4_ENTRIES 0x4001u

static void (*original_status)(state_t *s, u64 value);
static void (*original_cause)(state_t *s, u64 value);
static void (*original_wait)(state_t *s); /* does not return */
static void (*original_translate)(void *cpu, void *block, int most);

bool pending(const struct cpu *c)
{
	return own(c)->raised & own(c)->enabled;
}

void reset_cpu(struct cpu *c)
{
	struct mips64_cpu *o = own(c);

	o->raised &= SENT;
	o->enabled = 0;
	__builtin_memset(o->tlb, 0, sizeof(o->tlb));
	c->timer = NEVER;
}

/* Raise the timer's interrupt if it is time, and show in Cause what is raised. */
static void show_raised(struct board *b)
{
	struct cpu *c = this_cpu(b);
	u32 *cause = &state(b)->cause;

	if (b->now >= c->timer) {
		c->timer += COUNT_RANGE * MIPS64_NS_PER_COUNT;
		own(c)->raised |= TIMER;
	}
	*cause = (*cause & ~(INTERRUPTS | CAUSE_TIMER)) | own(c)->raised;
	if (own(c)->raised & TIMER)
		*cause |= CAUSE_TIMER;
}

int next_interrupt(struct board *b)
{
	show_raised(b);
	return pending(this_cpu(b)) ? INTERRUPT : -1;
}

void start_cpu(struct board *b)
{
	state(b)->ebase |= b->current;
	state(b)->pc = this_cpu(b)->start;
}

static void *entries(const struct board *b)
{
	return state(b)->tlb + MIPS64_TLB_ENTRIES;
}

void switch_context(struct board *b, struct cpu *from, struct cpu *to)
{
	uc.context_save(engine(b), (void *)(uintptr_t)from->context);
	__builtin_memcpy(own(from)->tlb, entries(b), MIPS64_TLB_SIZE);
	uc.context_restore(engine(b), (void *)(uintptr_t)to->context);
	__builtin_memcpy(entries(b), own(to)->tlb, MIPS64_TLB_SIZE);
	state(b)->reserved = 1;
	uc.ctl(engine(b), UC_CTL_TLB_FLUSH);
}

/* ---- clocks */
static u32 count(const struct board *b)
{
	return b->now / MIPS64_NS_PER_COUNT;
}

static u64 read_count(state_t *s)
{
	struct board *b = board_of(s);

	read_time(b);
	show_raised(b);
	return (int64_t)(int32_t)count(b);
}

static u64 read_count_in_program(state_t *s)
{
	if (!IN_KERNEL(s->hflags) && !(s->hwrena & RDHWR_CLOCK))
		raise_exception(s, RESERVED_INSTRUCTION, 0, CALLER);
	return read_count(s);
}

static void set_compare(state_t *s, u64 value)
{
	struct board *b = board_of(s);
	u64 now = settle(b) / MIPS64_NS_PER_COUNT;
	u32 distance = (u32)value - (u32)now;

	s->compare = value;
	own(this_cpu(b))->raised &= ~TIMER;
	this_cpu(b)->timer = (now + (distance ? distance : COUNT_RANGE)) * MIPS64_NS_PER_COUNT;
	show_raised(b);
	set_due(b);
}

/* ---- what else is replaced */
/* libunicorn calls it where code is to end, too, as in the trials before there is a board. */
static void wait(state_t *s)
{
	if (!board_of(s))
		original_wait(s);
	end_run(board_of(s));
}

static void set_status(state_t *s, u64 value)
{
	struct board *b = board_of(s);

	original_status(s, value);
	if (!b)
		return;
	own(this_cpu(b))->enabled = s->status & INTERRUPTS;
	set_due(b);
}

static void set_cause(state_t *s, u64 value)
{
	struct board *b = board_of(s);

	original_cause(s, value);
	if (!b)
		return;
	own(this_cpu(b))->raised = (own(this_cpu(b))->raised & ~SOFTWARE) | (s->cause & SOFTWARE);
	set_due(b);
}

static void translate(void *cpu, void *block, int most)
{
	original_translate(cpu, block, most < MAX_BLOCK ? most : MAX_BLOCK);
}

bool init_arch(struct board *b)
{
	state_t *s = state(b);

	s->board = (uintptr_t)b;
	devices(b)->random = 1;
	s->config[1] |= CONFIG1_ENTRIES;
	s->config[3] |= CONFIG3_ULRI | CONFIG3_MANAGER | CONFIG3_MORE;
	s->coherence = MIPS64_MANAGERS >> MANAGER_SHIFT;
	s->config[4] = CONFIG4_ENTRIES;
	AT(u32, s->tlb, 0) = AT(u32, s->tlb, 4) = NR_ENTRIES;
	set_status(s, STATUS_KX);
	return map_console(b, MIPS64_CONSOLE, page_size, NEVER) &&
	       map_hole(b, MIPS64_CONSOLE + page_size, MIPS64_MANAGERS) && map_managers(b) &&
	       map_hole(b, MIPS64_GIC + MIPS64_GIC_SIZE, HOLE_END);
}

REPLACE(helper_mfc0_count_mips64el, read_count);
REPLACE(helper_mtc0_count_mips64el, ignored);
REPLACE(helper_mtc0_compare_mips64el, set_compare);
REPLACE(helper_rdhwr_cc_mips64el, read_count_in_program);
REPLACE_TOO(helper_wait_mips64el, wait, original_wait);
/* Stores to code are noticed. For some operations libunicorn's own calls a function that is not there. */
REPLACE(helper_cache_mips64el, ignored);
REPLACE_TOO(cpu_mips_store_status_mips64el, set_status, original_status);
REPLACE_TOO(cpu_mips_store_cause_mips64el, set_cause, original_cause);
REPLACE_TOO(gen_intermediate_code_mips64el, translate, original_translate);
