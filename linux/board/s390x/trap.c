// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Interruptions: a new PSW is loaded from the lowcore, and the old one stored there. libunicorn only
 * reports those of programs, and knows no others.
 *
 * The kernel steps over probed instructions by PER. libunicorn's own raises it with the condition
 * code of before the instruction, and adds the instruction's size to the address of a taken branch.
 * So the bit is kept out of libunicorn's PSW, the instruction runs in a block of its own, and PER is
 * an interruption that is due before the next block.
 */
#include "s390x.h"

#define EXCEPTION_CALL 2 /* libunicorn's numbers */
#define EXCEPTION_PROGRAM 3
#define NEXT_BLOCK 24 /* in a processor: how the next block is to be translated */
#define ONE_INSTRUCTION 1
#define CR9_FETCH 0x40000000ull
#define PER_FETCH 0x4000

/* places in the lowcore */
#define EXTERNAL_PARAMETER 0x80
#define EXTERNAL_CPU 0x84
#define EXTERNAL_CODE 0x86
#define CALL_LENGTH 0x88
#define PROGRAM_LENGTH 0x8c
#define PER_CODE 0x96
#define PER_ADDRESS 0x98
#define BREAKING_EVENT 0x110
#define EXTERNAL_OLD 0x130
#define CALL_OLD 0x140
#define PROGRAM_OLD 0x150
#define TO_NEW 0x80 /* from an old PSW to the new one */

/* bits of the program interruptions whose old PSW is behind the instruction, below 0x40 */
#define COMPLETED 0x00000100a82cfffeull

#define PC addr
#define LINK r[14]
#define STACK r[15]
#define RESULT r[2]
#define ARGUMENTS r[2]
#include "../registers.h"
#define PT_REGS_STATUS 8
#define PT_REGS_LINK 136
#define PT_REGS_SP 144
#define FROM_KERNEL(status) (!((status) & PSW_PROGRAM))
#define BIG_ENDIAN true
#define SPACES
#define PAUSE_SIZE 2
#include "../link_register.h"

IMPORT(u64, psw_mask, get_psw_mask, (state_t * s));
IMPORT(void, end_run, helper_uc_s390x_exit_s390x, (state_t * s)); /* does not return */

bool in_program(const struct board *b)
{
	return state(b)->mask & PSW_PROGRAM;
}

bool is_woken(const struct board *b)
{
	return state(b)->mask & PSW_EXTERNAL;
}

/* ---- the PSW */
void set_psw(struct board *b, u64 mask, u64 addr)
{
	struct s390x_cpu *o = own(this_cpu(b));
	state_t *s = state(b);

	o->step = mask & PSW_PER ? STEP_ARMED : STEP_NONE;
	o->step_from = addr;
	o->step_block = begun(b) + 1;
	s->mask = mask & ~PSW_PER;
	s->addr = addr;
	s->cc_op = mask >> 44 & 3;
	enter_space(b);
	set_due(b);
}

static void run_one_instruction(struct board *b)
{
	AT(u32, processor(b), NEXT_BLOCK) = ONE_INSTRUCTION;
}

static void load_psw(state_t *s, u64 mask, u64 addr)
{
	struct board *b = board_of(s);

	set_psw(b, mask, addr);
	if (mask & PSW_WAIT)
		end_run(s);
	if (own(this_cpu(b))->step)
		run_one_instruction(b);
	leave(processor(b));
}

/* Store the PSW, with another address, and load the new one. */
static void interrupt(struct board *b, u64 old, u64 addr)
{
	u64 at = lowcore(b) + old;

	put64(at, psw_mask(state(b)) | (own(this_cpu(b))->step ? PSW_PER : 0));
	put64(at + 8, addr);
	set_psw(b, get64(at + TO_NEW), get64(at + TO_NEW + 8));
}

static void interrupt_program(struct board *b, u32 code, u32 length, u64 addr)
{
	u64 low = lowcore(b);

	b->exceptions++;
	put16(low + PROGRAM_LENGTH, length);
	put16(low + PROGRAM_LENGTH + 2, code);
	put64(low + BREAKING_EVENT, state(b)->breaking_event);
	interrupt(b, PROGRAM_OLD, addr);
}

/* ---- single steps */
static bool is_watched(const struct board *b, u64 addr)
{
	const u64 *cr = state(b)->cr;

	if (!(cr[9] & CR9_FETCH))
		return false;
	return cr[10] <= cr[11] ? addr >= cr[10] && addr <= cr[11] :
				  addr >= cr[10] || addr <= cr[11];
}

static void interrupt_step(struct board *b, u64 from, u32 length)
{
	put16(lowcore(b) + PER_CODE, PER_FETCH);
	put64(lowcore(b) + PER_ADDRESS, from);
	interrupt_program(b, PGM_PER, length, state(b)->addr);
}

static void deliver_step(struct board *b)
{
	struct s390x_cpu *o = own(this_cpu(b));

	if (is_watched(b, o->step_from))
		interrupt_step(b, o->step_from, 2);
	else
		set_psw(b, psw_mask(state(b)) | PSW_PER, state(b)->addr);
}

/*
 * A branch that was stepped over may lead nowhere, as one in a copy does: its step comes before the
 * fault of what it leads to. Return whether it has been delivered.
 */
bool end_step(struct board *b)
{
	struct s390x_cpu *o = own(this_cpu(b));

	if (o->step != STEP_ARMED || state(b)->addr == o->step_from)
		return false;
	deliver_step(b);
	if (o->step)
		run_one_instruction(b);
	return true;
}

/* Return whether the instruction that is stepped over has run. */
static bool has_stepped(const struct board *b)
{
	struct s390x_cpu *o = own(this_cpu((struct board *)b));

	if (o->step == STEP_ARMED &&
	    (devices(b)->running ? begun(b) > o->step_block : state(b)->addr != o->step_from))
		o->step = STEP_DONE;
	return o->step == STEP_DONE;
}

bool takes_interrupts(const struct board *b)
{
	if (state(b)->executed) /* EXECUTE is half done */
		return false;
	return has_stepped(b) ||
	       (state(b)->mask & PSW_EXTERNAL && external(b, this_cpu((struct board *)b)));
}

int next_interrupt(struct board *b)
{
	u32 code;

	if (has_stepped(b))
		return PGM_PER;
	code = external(b, this_cpu(b));
	return code ? (int)code : -1;
}

bool deliver_interrupt(struct board *b, int code)
{
	struct s390x_cpu *o = own(this_cpu(b));
	u64 low = lowcore(b), from = 0;

	if (code == PGM_PER) {
		deliver_step(b);
		return true;
	}
	if (code == EMERGENCY) {
		from = __builtin_ctzll(o->emergency);
		o->emergency &= o->emergency - 1;
	} else if (code == CALL) {
		from = o->call - 1;
		o->call = 0;
	} else if (code == SERVICE) {
		put32(low + EXTERNAL_PARAMETER, o->service);
		o->service = 0;
	}
	put16(low + EXTERNAL_CPU, from);
	put16(low + EXTERNAL_CODE, code);
	interrupt(b, EXTERNAL_OLD, state(b)->addr);
	return !(state(b)->mask & PSW_WAIT);
}

/* Return whether a debugger has stopped in a block that goes on, and is not counted again. */
static bool goes_on(const struct board *b)
{
	const struct stops *stops = (const struct stops *)(uintptr_t)b->stops;

	return begun(b) == b->entered && state(b)->addr == stops->address;
}

void before_run(struct board *b)
{
	struct s390x_cpu *o = own(this_cpu(b));

	if (o->step == STEP_ARMED) {
		o->step_block = begun(b) + !goes_on(b);
		run_one_instruction(b);
	}
	devices(b)->running = true;
}

void after_run(struct board *b)
{
	devices(b)->running = false;
}

/* ---- what libunicorn reports */
/* Return whether it was an instruction of the agent, which is done then. */
static bool is_agent(struct board *b)
{
	state_t *s = state(b);

	if (!in_program(b))
		return false;
	if (!hears(b, s->addr, AGENT_SAYS)) {
		if (!b->debug_limit || read_int(b, s->addr) != AGENT_SHARES)
			return false;
		devices(b)->space = s->cr[1];
	}
	s->addr += 4;
	return true;
}

static void call(struct board *b)
{
	const state_t *s = state(b);
	u64 from = s->addr;
	bool steps = own(this_cpu(b))->step && is_watched(b, from);

	b->syscalls++;
	put16(lowcore(b) + CALL_LENGTH, s->svc_length);
	put16(lowcore(b) + CALL_LENGTH + 2, s->svc_number);
	interrupt(b, CALL_OLD, from + s->svc_length);
	if (steps)
		interrupt_step(b, from, s->svc_length);
}

void on_exception(uc_engine u, u32 cause, void *data)
{
	struct board *b = data;
	state_t *s = state(b);
	u32 code = s->pgm_code, length = s->pgm_length;
	bool completed = code < 64 ? COMPLETED >> code & 1 : code == 64;

	if (cause == EXCEPTION_CALL) {
		call(b);
	} else if (cause != EXCEPTION_PROGRAM ? !give_up(b, cause) : faults_again(b, code)) {
		return;
	} else if (code != PGM_PRIVILEGED || !is_agent(b)) {
		left_block(b, s->addr + 1);
		interrupt_program(b, code, length, s->addr + (completed ? length : 0));
	}
	if (s->mask & PSW_WAIT)
		uc.emu_stop(u);
	else if (own(this_cpu(b))->step)
		run_one_instruction(b);
}

REPLACE(helper_load_psw, load_psw);
