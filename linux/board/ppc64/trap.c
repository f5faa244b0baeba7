// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Interrupts and exceptions, which the board enters itself: libunicorn's own way returns to the
 * instruction behind the right one, as it has moved the address on before it reports anything.
 *
 * libunicorn's POWER10 lacks scv and rfscv, which POWER9 has: they are illegal to it, and made here.
 */
#include "ppc64.h"

#define PT_REGS_LINK 288
#define PT_REGS_SP 8
#define PT_REGS_STATUS 264
#define FROM_KERNEL(msr) (!((msr) & MSR_PR))
#define FLAGS_IN_STATE
#define LOCAL_ENTRY 8
#define REGION REGION_LOW
#include "../link_register.h"
#define PC nip
#define LINK lr
#define STACK gpr[1]
#define RESULT gpr[3]
#define ARGUMENTS gpr[3]
#include "../registers.h"

#define INSN_SIZE 4
#define KEPT_CAUSE 0x783f0000ull /* bits of MSR in whose place SRR1 says what happened */
#define RELOCATED 0xc000000000004000ull /* where handlers are for translated addresses */
#define SCV_HANDLER 0xc000000000003000ull
#define PAUSE_OF_THREAD 0x10001 /* libunicorn's number of "or 2,2,2" and its like, which end its run */
#define IS_HYPERCALL 1 /* the error code of a system call */

/* bits of MSR that translated code depends on */
#define IN_HFLAGS (MSR_64 | MSR_HV | 1ull << 31 | 1ull << 25 | 1ull << 23 | 1ull << 22 | MSR_PR | \
		   1ull << 13 | MSR_SE | 1ull << 9 | MSR_IR | MSR_DR | MSR_LE)

/* instructions */
#define AGENT_SAYS 0x00000e90u /* address and size of what the agent says */
#define SCV 0x44000001u
#define RFSCV 0x4c0000a4u

/* kinds of a program check, as libunicorn and SRR1 have them */
#define KIND(error) ((error) & ~15u)
#define FLOATS 0x10
#define INVALID 0x20
#define NOT_ALLOWED 0x30
#define SRR1_FLOATS 0x100000
#define SRR1_INVALID 0x80000
#define SRR1_NOT_ALLOWED 0x40000
#define SRR1_TRAP 0x20000
#define SRR1_STEP 0x40000000

enum { ARGUMENT = 3 };

static void (*original_raise)(state_t *s, u32 exception);

bool takes_interrupts(const struct board *b)
{
	return state(b)->msr & MSR_EE;
}

void set_msr(state_t *s, u64 msr)
{
	u32 mode = msr & MSR_PR ? 0 : KERNEL_MODE;

	s->msr = msr;
	s->hflags = (msr & IN_HFLAGS) | s->hflags_more;
	s->code_mode = mode | (msr & MSR_IR ? 0 : REAL_MODE);
	s->data_mode = mode | (msr & MSR_DR ? 0 : REAL_MODE);
}

/* libunicorn's translator looks at MSR itself, which has more than the flags. */
u32 swap_flags(struct board *b, u32 flags)
{
	state_t *s = state(b);
	u32 was = s->hflags;

	set_msr(s, (s->msr & ~(u64)(u32)IN_HFLAGS) | (flags & (u32)IN_HFLAGS));
	return was;
}

/* Go to a handler. at: where to go on; cause: bits of SRR1. */
static void enter(struct board *b, u64 handler, u64 cause, u64 at)
{
	state_t *s = state(b);
	u64 was = s->msr, msr = (was & MSR_ME) | MSR_64;

	if (devices(b)->little_endian)
		msr |= MSR_LE;
	if (devices(b)->relocated == 3 && was & MSR_IR && was & MSR_DR) {
		msr |= MSR_IR | MSR_DR;
		handler |= RELOCATED;
	}
	s->spr[SRR0] = at;
	s->spr[SRR1] = (was & ~KEPT_CAUSE) | cause;
	s->nip = handler;
	s->reserve_addr = NEVER;
	s->error_code = 0;
	set_msr(s, msr);
}

bool deliver_interrupt(struct board *b, int number)
{
	enter(b, number, 0, state(b)->nip);
	return true;
}

/* What an image and a debugger have written may be another MSR. */
void before_run(struct board *b)
{
	set_msr(state(b), state(b)->msr);
}

/* A thread lets others go first. The code behind the call leaves the block anyway. */
static void pause_thread(state_t *s, u32 exception)
{
	if (!board_of(s) || exception != PAUSE_OF_THREAD)
		original_raise(s, exception);
}

/* ---- what libunicorn reports */
static void call_by_scv(struct board *b, u64 at)
{
	state_t *s = state(b);
	u64 msr = s->msr;

	s->lr = at + INSN_SIZE;
	s->ctr = msr & ~KEPT_CAUSE;
	s->nip = SCV_HANDLER;
	set_msr(s, (msr & (MSR_ME | MSR_EE | MSR_RI)) | MSR_64 | MSR_LE | MSR_IR | MSR_DR);
	b->syscalls++;
}

static void return_from_scv(state_t *s)
{
	u64 msr = s->ctr & s->msr_mask;

	if (msr & MSR_PR)
		msr |= MSR_EE | MSR_IR | MSR_DR;
	s->nip = s->lr & -4ull;
	s->reserve_addr = NEVER;
	set_msr(s, msr);
}

/* Do what libunicorn does not know; false: it is illegal. */
static bool knows(struct board *b, u64 at)
{
	state_t *s = state(b);
	u32 insn = read_int(b, at);
	bool in_kernel = !(s->msr & MSR_PR);

	if (insn == SCV && devices(b)->relocated == 3) {
		call_by_scv(b, at);
	} else if (insn == RFSCV && in_kernel) {
		return_from_scv(s);
	} else if (!in_kernel && hears(b, at, AGENT_SAYS)) {
		s->nip = at + INSN_SIZE;
	} else {
		return false;
	}
	return true;
}

static void call(struct board *b, u64 at, u32 error)
{
	state_t *s = state(b);

	if (error == IS_HYPERCALL && s->msr & MSR_PR) {
		enter(b, 0x700, SRR1_NOT_ALLOWED, at);
	} else if (error == IS_HYPERCALL) {
		s->nip = at + INSN_SIZE;
		s->gpr[ARGUMENT] = hypercall(b);
	} else {
		b->syscalls++;
		enter(b, 0xc00, 0, at + INSN_SIZE);
	}
}

static u64 program_cause(u32 error)
{
	switch (KIND(error)) {
	case FLOATS:      return SRR1_FLOATS;
	case INVALID:     return SRR1_INVALID;
	case NOT_ALLOWED: return SRR1_NOT_ALLOWED;
	}
	return SRR1_TRAP;
}

/* The handlers of exceptions. */
static const u16 handlers[] = {
	[DATA_STORAGE] = 0x300, [CODE_STORAGE] = 0x400, [ALIGNMENT] = 0x600,    [PROGRAM] = 0x700,
	[NO_FLOATS] = 0x800,    [DATA_SEGMENT] = 0x380, [CODE_SEGMENT] = 0x480, [TRACE] = 0xd00,
	[NO_VECTORS] = 0xf20,   [NO_VSX] = 0xf40,       [NO_FACILITY] = 0xf60,  [ILLEGAL] = 0x700
};

/* libunicorn has moved the address on, whatever has happened. */
void on_exception(uc_engine u, u32 exception, void *data)
{
	struct board *b = data;
	u64 handler = exception < sizeof(handlers) / 2 ? handlers[exception] : 0;
	u64 at = state(b)->nip - INSN_SIZE, cause = 0;
	u32 error = state(b)->error_code;

	(void)u;
	left_block(b, at + 1);
	if (exception == SYSTEM_CALL) {
		call(b, at, error);
		return;
	}
	if (exception == ILLEGAL && knows(b, at))
		return;
	b->exceptions++;
	state(b)->nip = at;
	if (faults_again(b, exception) || (!handler && !give_up(b, exception)))
		return;
	switch (exception) {
	case PROGRAM:      cause = program_cause(error); break;
	case ILLEGAL:      cause = SRR1_INVALID; break;
	case CODE_STORAGE: cause = error; break;
	case TRACE:        cause = SRR1_STEP; break;
	}
	enter(b, handler, cause, at);
}

REPLACE_TOO(helper_raise_exception_ppc64, pause_thread, original_raise);
