// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Exceptions and interrupts, which libunicorn's own function enters, and what the firmware
 * answers: it starts and stops processors (PSCI).
 */
#include "arm64.h"

#define SYNDROME_IMMEDIATE 0xffff
#define PSCI_VERSION 0x84000000u
#define PSCI_CPU_OFF 0x84000002u
#define PSCI_CPU_ON 0xc4000003u
#define PSCI_AFFINITY_INFO 0xc4000004u
#define PSCI_MIGRATE_INFO_TYPE 0x84000006u
#define PSCI_FEATURES 0x8400000au
#define SMCCC_VERSION 0x80000000u
#define VERSION_1_1 0x10001
#define NO_MIGRATION 2
#define NOT_SUPPORTED (-1ull)
#define INVALID (-2ull)
#define ALREADY_ON (-4ull)
#define PT_REGS_LINK 240
#define PT_REGS_SP 248
#define PT_REGS_STATUS 264
#define FROM_KERNEL(status) ((status) & 0xf) /* the mode */
#include "../link_register.h"

const u32 pause_size = 4;
const u32 local_entry = 0;
const u64 region_base = REGION_BASE;
const u32 nr_modes = 12;
const u32 page_size = 1024;

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
	return (struct back){ general(b)[30], stack_pointer(b) };
}

void return_now(struct board *b, u64 value)
{
	*pc(b) = general(b)[30];
	if (value != NEVER)
		general(b)[0] = value;
}

bool takes_interrupts(const struct board *b)
{
	return !(FIELD(u32, b->state + ARM64_STATE_DAIF) & PSTATE_I);
}

static void enter(struct board *b)
{
	arm64_api.do_interrupt(processor(b));
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

void before_run(struct board *b)
{
	(void)b;
}

void after_run(struct board *b)
{
	(void)b;
}

static u64 cpu_on(struct board *b, u64 number, u64 entry, u64 context)
{
	struct cpu *c = &b->cpus[number];

	if (number >= b->nr_cpus)
		return INVALID;
	if (!turn_on(b, c, entry))
		return ALREADY_ON;
	own(c)->context = context;
	return 0;
}

static u64 firmware(struct board *b, const u64 *x)
{
	switch ((u32)x[0]) {
	case PSCI_VERSION:
	case SMCCC_VERSION:      return VERSION_1_1;
	case PSCI_CPU_ON:        return cpu_on(b, x[1], x[2], x[3]);
	case PSCI_CPU_OFF:       turn_off(b); return 0;
	case PSCI_AFFINITY_INFO: return x[1] < b->nr_cpus && b->cpus[x[1]].state != CPU_OFF ? 0 : 1;
	case PSCI_MIGRATE_INFO_TYPE: return NO_MIGRATION;
	case PSCI_FEATURES:
		return (u32)x[1] == PSCI_CPU_ON || (u32)x[1] == SMCCC_VERSION ? 0 : NOT_SUPPORTED;
	}
	return NOT_SUPPORTED;
}

static void on_exception(uc_engine u, u32 kind, void *data)
{
	struct board *b = data;
	u64 *x = general(b);

	(void)u;
	if (kind == EXCEPTION_SMC) {
		x[0] = firmware(b, x);
		return;
	}
	if (kind == EXCEPTION_SVC) {
		if ((FIELD(u32, b->state + ARM64_STATE_SYNDROME) & SYNDROME_IMMEDIATE) ==
			    AGENT_SAYS &&
		    b->debug_limit) {
			hear(b, x[0], x[1]);
			return;
		}
		b->syscalls++;
	} else {
		b->exceptions++;
	}
	left_block(b, *pc(b) + 1);
	if (faults_again(b))
		board_stop(b, STOP_FAULT, *pc(b));
	else
		enter(b);
}

bool hook_traps(struct board *b)
{
	size_t hook;

	return !uc.hook_add(engine(b), &hook, UC_HOOK_INTR, on_exception, b, 1, 0);
}
