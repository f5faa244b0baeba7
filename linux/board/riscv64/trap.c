// SPDX-License-Identifier: GPL-2.0-or-later
/* Exceptions and interrupts, which libunicorn only reports. */
#include "riscv64.h"

#define CAUSE_ILLEGAL 2
#define CAUSE_BREAKPOINT 3
#define CAUSE_CALL 8 /* libunicorn's number, whoever calls */
#define CAUSE_INTERRUPT (1ull << 63)
#define INSN_SIZE 4
#define PT_REGS_LINK 8
#define PT_REGS_SP 16
#define PT_REGS_STATUS 256
#define FROM_KERNEL(status) ((status) & MSTATUS_SPP)
#include "../link_register.h"
#define PC pc
#define LINK x[RA]
#define STACK x[SP]
#define RESULT x[A0]
#define ARGUMENTS x[A0]
#include "../registers.h"
#define AGENT_SAYS 0x0000000b /* custom-0: address and size of what the agent says */

static bool in_user(const struct board *b)
{
	return state(b)->priv == PRIVILEGE_USER;
}

bool takes_interrupts(const struct board *b)
{
	return in_user(b) || state(b)->mstatus & MSTATUS_SIE;
}

static void enter(struct board *b, u64 cause, u64 at, u64 value)
{
	u64 *status = &state(b)->mstatus, was = *status;
	u64 vectors = state(b)->stvec;

	*status = was & ~(MSTATUS_SPIE | MSTATUS_SPP | MSTATUS_SIE);
	if (was & MSTATUS_SIE)
		*status |= MSTATUS_SPIE;
	if (!in_user(b))
		*status |= MSTATUS_SPP;
	state(b)->scause = cause;
	state(b)->sepc = at;
	state(b)->stval = value;
	state(b)->reserved = NEVER;
	state(b)->priv = PRIVILEGE_KERNEL;
	*pc(b) = vectors & ~3ull;
	if (vectors & 1 && cause & CAUSE_INTERRUPT)
		*pc(b) += 4 * (cause & ~CAUSE_INTERRUPT);
}

bool deliver_interrupt(struct board *b, int number)
{
	enter(b, CAUSE_INTERRUPT | number, *pc(b), 0);
	return true;
}

/* libunicorn has moved the program counter on by the longer size of an instruction. */
static void on_exception(uc_engine u, u32 cause, void *data)
{
	struct board *b = data;
	u64 at = *pc(b) - INSN_SIZE, value = 0;

	(void)u;
	if (cause == CAUSE_CALL && !in_user(b)) {
		firmware(b);
		return;
	}
	if (cause == CAUSE_CALL) {
		b->syscalls++;
	} else if (cause == CAUSE_ILLEGAL && in_user(b) && hears(b, at, AGENT_SAYS)) {
		return;
	} else {
		b->exceptions++;
		value = cause == CAUSE_ILLEGAL ? 0 : state(b)->fault;
	}
	left_block(b, at + 1);
	if (!faults_again(b, cause))
		enter(b, cause, at, value);
}

/* ebreak comes here. libunicorn leaves an error behind that it would return at its next stop. */
static bool on_invalid(uc_engine u, void *data)
{
	struct board *b = data;

	(void)u;
	b->exceptions++;
	FIELD(u32, b->uc + ENGINE_INVALID) = 0;
	enter(b, CAUSE_BREAKPOINT, *pc(b), *pc(b));
	return true;
}

bool hook_traps(struct board *b)
{
	size_t hook;

	return hook_exceptions(b, on_exception) &&
	       !uc.hook_add(engine(b), &hook, UC_HOOK_INSN_INVALID, on_invalid, b, 1, 0);
}
