// SPDX-License-Identifier: GPL-2.0-or-later
/* Processors: their turns, and how one starts. */
#include "internal.h"

#define CR0_PROTECTED 1
#define CR0_PAGED (1ull << 31)
#define CR0_RESET 0x60000010
#define CR4_PSE 0x10
#define HFLAG_ADD_SEGMENTS 0x40
#define REAL_CODE 0x9b00
#define REAL_DATA 0x9300
#define CPUID_FEATURES 1
#define CPUID_APIC_ID 24 /* first bit of the id in ebx */

/* Start as after INIT and a start-up interrupt: in real mode, where a page begins. */
static void start(struct board *b)
{
	struct cpu *c = this_cpu(b);
	struct state *s = state(b);
	struct {
		u32 number;
		u64 value;
	} efer = { MSR_EFER, 0 };
	u64 cr0 = CR0_RESET, cr4 = 0;

	uc.context_restore(engine(b), (void *)(uintptr_t)b->reset);
	for (int i = 0; i < 16; i++)
		s->regs[i] = 0;
	/* the engine is in long mode, and leaves it when paging is switched off */
	s->cr[0] = CR0_PROTECTED | CR0_PAGED;
	uc.reg_write(engine(b), UC_X86_REG_CR0, &cr0);
	uc.reg_write(engine(b), UC_X86_REG_MSR, &efer);
	uc.reg_write(engine(b), UC_X86_REG_CR4, &cr4);
	for (int i = ES; i <= GS; i++) {
		const struct segment data = { .limit = 0xffff, .flags = REAL_DATA };

		s->segs[i] = data;
	}
	s->segs[CS].selector = c->start >> 4;
	s->segs[CS].base = c->start;
	s->segs[CS].flags = REAL_CODE;
	s->hflags = HFLAG_ADD_SEGMENTS;
	s->ip = 0;
	c->start = NEVER;
	c->lstar = 0;
}

/* Return whether two sets of control registers translate alike: then the TLB may stay. */
static bool same_addresses(const struct state *s, const u64 cr[5])
{
	/* only the boot processor has this bit, and in long mode it means nothing */
	return s->cr[0] == cr[0] && s->cr[3] == cr[3] && !((s->cr[4] ^ cr[4]) & ~(u64)CR4_PSE);
}

/* Switch to another processor. */
void select_cpu(struct board *b, u64 number)
{
	struct state *s = state(b);
	struct cpu *c = &b->cpus[number];

	if (number != b->current) {
		const u64 cr[5] = { s->cr[0], s->cr[1], s->cr[2], s->cr[3], s->cr[4] };

		uc.context_save(engine(b), (void *)(uintptr_t)this_cpu(b)->context);
		uc.context_restore(engine(b), (void *)(uintptr_t)c->context);
		b->current = number;
		b->turns++;
		if (!same_addresses(s, cr))
			uc.ctl(engine(b), UC_CTL_TLB_FLUSH);
	}
	if (c->start != NEVER) {
		start(b);
		uc.ctl(engine(b), UC_CTL_TLB_FLUSH);
	}
}

static bool can_run(const struct board *b, const struct cpu *c)
{
	return c->state == CPU_RUNS || (c->state != CPU_OFF && interrupt_due(b, c));
}

bool others_can_run(const struct board *b)
{
	for (u64 i = 0; i < b->nr_cpus; i++)
		if (i != b->current && can_run(b, &b->cpus[i]))
			return true;
	return false;
}

/* Set the end of the running processor's turn: when another one can run. */
void begin_turn(struct board *b)
{
	b->turn_end = NEVER;
	for (u64 i = 0; i < b->nr_cpus; i++) {
		const struct cpu *c = &b->cpus[i];
		u64 wants = NEVER;

		if (i == b->current)
			continue;
		if (can_run(b, c))
			wants = b->now + CPU_TURN;
		else if (c->state == CPU_HALTED || c->state == CPU_RESTS)
			wants = c->timer;
		if (c->state == CPU_RESTS && c->since + PATIENCE < wants)
			wants = c->since + PATIENCE;
		if (wants < b->turn_end)
			b->turn_end = wants;
	}
	set_due(b);
}

/*
 * Return whether a processor may have a turn. One that rests may if no other can run, or if
 * it has rested for long.
 */
static bool may_run(const struct board *b, const struct cpu *c, bool nobody)
{
	if (c->state == CPU_RESTS && (nobody || b->now >= c->since + PATIENCE))
		return true;
	return can_run(b, c);
}

/*
 * Switch to the next processor that can run; the current one comes last. If all have halted,
 * time passes to the first timer. False: none will ever run again.
 */
bool next_cpu(struct board *b)
{
	u64 first = NEVER;

	for (int nobody = 0; nobody < 2; nobody++) {
		for (u64 i = 1; i <= b->nr_cpus; i++) {
			u64 number = (b->current + i) % b->nr_cpus;

			if (may_run(b, &b->cpus[number], nobody)) {
				select_cpu(b, number);
				return true;
			}
		}
	}
	for (u64 i = 0; i < b->nr_cpus; i++)
		if (b->cpus[i].state == CPU_HALTED && b->cpus[i].timer < first)
			first = b->cpus[i].timer;
	if (first == NEVER)
		return false;
	b->now = first;
	return next_cpu(b);
}

/* Wake the agent for the host's request, if it rests. */
void call_agent(struct board *b)
{
	if (!b->call_agent)
		return;
	b->call_agent = 0;
	for (u64 i = 0; i < b->nr_cpus; i++) {
		struct cpu *c = &b->cpus[i];

		if (i != b->current && c->state == CPU_RESTS) {
			c->state = CPU_RUNS;
			c->called = 1;
		}
	}
}

/* Answer CPUID with each processor's own number; libunicorn knows one processor only. */
static int on_cpuid(uc_engine u, void *data)
{
	struct board *b = data;
	struct state *s = state(b);

	(void)u;
	if ((u32)s->regs[RAX] != CPUID_FEATURES || !b->current)
		return 0;
	s->regs[RAX] = b->cpuid[0];
	s->regs[RBX] = (b->cpuid[1] & ((1u << CPUID_APIC_ID) - 1)) | b->current << CPUID_APIC_ID;
	s->regs[RCX] = b->cpuid[2];
	s->regs[RDX] = b->cpuid[3];
	return 1;
}

/* Every processor starts from the state of an engine that has not run yet. */
bool add_cpus(struct board *b)
{
	size_t hook;

	for (u64 i = 0; i < b->nr_cpus; i++) {
		b->cpus[i].start = NEVER;
		reset_apic(&b->cpus[i]);
		b->cpus[i].state = i ? CPU_OFF : CPU_RUNS;
	}
	if (b->nr_cpus == 1)
		return true;
	for (u64 i = 0; i <= b->nr_cpus; i++) {
		u64 *place = i < b->nr_cpus ? &b->cpus[i].context : &b->reset;
		void *context;

		if (uc.context_alloc(engine(b), &context))
			return false;
		*place = (uintptr_t)context;
		if (uc.context_save(engine(b), context))
			return false;
	}
	return !uc.hook_add(engine(b), &hook, UC_HOOK_INSN, on_cpuid, b, 1, 0, UC_X86_INS_CPUID);
}
