// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Exceptions and interrupts, which libunicorn's own function enters, and what the firmware
 * answers: it starts and stops processors (PSCI).
 */
#include "arm64.h"

#define OF_64 (BITS == 64 ? 0x40000000u : 0) /* in a number: arguments have 64 bits */
#define PSCI_VERSION 0x84000000u
#define PSCI_CPU_OFF 0x84000002u
#define PSCI_CPU_ON (0x84000003u | OF_64)
#define PSCI_AFFINITY_INFO (0x84000004u | OF_64)
#define PSCI_MIGRATE_INFO_TYPE 0x84000006u
#define PSCI_FEATURES 0x8400000au
#define SMCCC_VERSION 0x80000000u
#define VERSION_1_1 0x10001
#define NO_MIGRATION 2
#define NOT_SUPPORTED (-1ull)
#define INVALID (-2ull)
#define ALREADY_ON (-4ull)
#define MRC_ID_PFR2 0xee100f93u /* mrc p15, 0, rN, c0, c3, 4 */
#define MRC_TO(insn) ((insn) >> 12 & 15)
#define ANY_REGISTER 0xf000u
/* svc 0xe9: address and size of what the agent says */
#define AGENT_SAYS (BITS == 32 ? 0xef0000e9 : 0xd4001d21)
#if BITS == 32
#define PT_REGS_LINK 56
#define PT_REGS_SP 52
#define PT_REGS_STATUS 64
#else
#define PT_REGS_LINK 240
#define PT_REGS_SP 248
#define PT_REGS_STATUS 264
#endif
#define FROM_KERNEL(status) ((status) & 0xf) /* the mode */
#define NR_MODES 12
#define PAGE_SIZE 1024
#define REGION (BITS == 32 ? REGION_BASE_32 : REGION_BASE)
#include "../link_register.h"

#if BITS == 32
/* The common part wants a place of 64 bits: behind r15 stands x0, which AArch32 does not use. */
u64 *pc(struct board *b)
{
	FIELD(u32, b->state + ARM64_STATE_X) = 0;
	return (u64 *)&general(b)[15];
}

u64 linear_pc(const struct board *b)
{
	return general(b)[15];
}

/* Those behind the fourth lie on the stack. */
u64 argument(const struct board *b, int number)
{
	return number < 4 ? general(b)[number] :
			    read_word((struct board *)b, stack_pointer(b) + 4 * (number - 4));
}
#else
u64 *pc(struct board *b)
{
	return &FIELD(u64, b->state + ARM64_STATE_PC);
}

u64 linear_pc(const struct board *b)
{
	return FIELD(u64, b->state + ARM64_STATE_PC);
}

u64 argument(const struct board *b, int number)
{
	return general(b)[number];
}
#endif

u64 result(const struct board *b)
{
	return argument(b, 0);
}

u64 stack_pointer(const struct board *b)
{
	return general(b)[SP];
}

struct back returns_to(struct board *b)
{
	return (struct back){ general(b)[LINK], stack_pointer(b) };
}

void return_now(struct board *b, u64 value)
{
	*pc(b) = general(b)[LINK];
	if (value != NEVER)
		general(b)[0] = value;
}

IMPORT(void, do_interrupt, arm_cpu_do_interrupt_aarch64, (void *cpu));

bool takes_interrupts(const struct board *b)
{
	return !(FIELD(u32, b->state + ARM64_STATE_DAIF) & PSTATE_I);
}

static void enter(struct board *b)
{
	do_interrupt(processor(b));
}

bool deliver_interrupt(struct board *b, int number)
{
	int32_t *exception = &AT(int32_t, processor(b), EXCEPTION);

	(void)number;
	*exception = EXCEPTION_IRQ;
	FIELD(u32, b->state + ARM64_STATE_TARGET) = 1;
	enter(b);
	*exception = -1;
	return true;
}

static u64 cpu_on(struct board *b, u64 number, u64 entry, u64 context)
{
	if (number >= b->nr_cpus)
		return INVALID;
	return turn_on_with(b, number, entry, context) ? 0 : ALREADY_ON;
}

static u64 firmware(struct board *b, const general_reg *x)
{
	switch ((u32)x[0]) {
	case PSCI_VERSION:
	case SMCCC_VERSION:      return VERSION_1_1;
	case PSCI_CPU_ON:        return cpu_on(b, x[1], x[2], x[3]);
	case PSCI_CPU_OFF:       turn_off(b, this_cpu(b)); return 0;
	case PSCI_AFFINITY_INFO: return x[1] < b->nr_cpus && b->cpus[x[1]].state != CPU_OFF ? 0 : 1;
	case PSCI_MIGRATE_INFO_TYPE: return NO_MIGRATION;
	case PSCI_FEATURES:
		return (u32)x[1] == PSCI_CPU_ON || (u32)x[1] == SMCCC_VERSION ? 0 : NOT_SUPPORTED;
	}
	return NOT_SUPPORTED;
}

/* Linux 6.12 reads ID_PFR2, which libunicorn lacks in AArch32. Return whether it was that. */
static bool read_features(struct board *b, u32 kind)
{
	u32 insn;

	if (BITS == 64 || kind != EXCEPTION_UNDEFINED)
		return false;
	insn = read_int(b, linear_pc(b));
	if ((insn & ~ANY_REGISTER) != MRC_ID_PFR2)
		return false;
	general(b)[MRC_TO(insn)] = 0;
	*pc(b) += 4;
	return true;
}

void on_exception(uc_engine u, u32 kind, void *data)
{
	struct board *b = data;
	general_reg *x = general(b);

	(void)u;
	if (kind == EXCEPTION_SMC) {
		x[0] = firmware(b, x);
		return;
	}
	if (read_features(b, kind))
		return;
	if (kind == EXCEPTION_SVC && hears(b, linear_pc(b) - 4, AGENT_SAYS))
		return;
	if (kind == EXCEPTION_SVC)
		b->syscalls++;
	else
		b->exceptions++;
	left_block(b, *pc(b) + 1);
	if (!faults_again(b, kind))
		enter(b);
}
