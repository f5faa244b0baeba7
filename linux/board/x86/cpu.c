// SPDX-License-Identifier: GPL-2.0-or-later
/* The start of x86-64 processors, and their differences. */
#include "x86.h"

#define CR0_PROTECTED 1
#define CR0_PAGED (1ull << 31)
#define CR0_RESET 0x60000010
#define CR4_PSE 0x10
#define REAL_CODE 0x9b00
#define REAL_DATA 0x9300
#define APIC_BOOT 0x100
#define APIC_ENABLED 0x800
#define CPUID_FEATURES 1
#define CPUID_APIC_ID 24 /* first bit of the id in ebx */
#define CPUID_POWER 6
#define CPUID_ARAT 4 /* in eax: the APIC's timer does not stop in idle */

/* Start as after INIT and a start-up interrupt: in real mode, where a page begins. */
void start_cpu(struct board *b)
{
	struct cpu *c = this_cpu(b);
	struct x86_state *s = state(b);
	struct {
		u32 number;
		u64 value;
	} efer = { MSR_EFER, 0 };
	u64 cr0 = CR0_RESET, cr4 = 0;

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
	own(c)->lstar = 0;
}

/* Return whether two sets of control registers translate alike: then the TLB may stay. */
static bool same_addresses(const struct x86_state *s, const u64 cr[5])
{
	/* only the boot processor has this bit, and in long mode it means nothing */
	return s->cr[0] == cr[0] && s->cr[3] == cr[3] && !((s->cr[4] ^ cr[4]) & ~(u64)CR4_PSE);
}

void switch_context(struct board *b, struct cpu *from, struct cpu *to)
{
	struct x86_state *s = state(b);
	const u64 cr[5] = { s->cr[0], s->cr[1], s->cr[2], s->cr[3], s->cr[4] };

	uc.context_save(engine(b), (void *)(uintptr_t)from->context);
	uc.context_restore(engine(b), (void *)(uintptr_t)to->context);
	if (!same_addresses(s, cr))
		uc.ctl(engine(b), UC_CTL_TLB_FLUSH);
}

/*
 * Answer CPUID where libunicorn does not: it knows one processor only, and no ARAT. Without ARAT
 * Linux keeps to ticks, and has no timers of high resolution.
 */
static int on_cpuid(uc_engine u, void *data)
{
	struct board *b = data;
	struct x86_state *s = state(b);
	const u64 *cpuid = devices(b)->cpuid;
	u32 leaf = (u32)s->regs[RAX];

	(void)u;
	if (leaf == CPUID_POWER) {
		s->regs[RAX] = CPUID_ARAT;
		s->regs[RBX] = s->regs[RCX] = s->regs[RDX] = 0;
		return 1;
	}
	if (leaf != CPUID_FEATURES || !b->current)
		return 0;
	s->regs[RAX] = cpuid[0];
	s->regs[RBX] = (cpuid[1] & ((1u << CPUID_APIC_ID) - 1)) | b->current << CPUID_APIC_ID;
	s->regs[RCX] = cpuid[2];
	s->regs[RDX] = cpuid[3];
	return 1;
}

/*
 * libunicorn has no APIC, and reads 0. From 6.9 on Linux starts no other processor unless the boot
 * processor is marked there.
 */
static bool on_read_msr(void *data)
{
	struct board *b = data;
	struct x86_state *s = state(b);

	if ((u32)s->regs[RCX] != MSR_APIC_BASE)
		return false;
	s->regs[RAX] = APIC_BASE | APIC_ENABLED | (b->current ? 0 : APIC_BOOT);
	s->regs[RDX] = 0;
	return true;
}

bool init_arch(struct board *b)
{
	size_t hook;

	watch_debug_regs(b);
	b->counter.read_msr = on_read_msr;
	return hook_traps(b) && hook_ports(b) && map_apic(b) &&
	       !uc.hook_add(engine(b), &hook, UC_HOOK_INSN, on_cpuid, b, 1, 0, UC_X86_INS_CPUID);
}
