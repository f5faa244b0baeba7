// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Exceptions and interrupts. libunicorn enters them by a function that its library exports. It calls
 * that only for exceptions that no hook hears, and a hook finds a wrong address in PC. So the board
 * replaces the function by which all code raises exceptions.
 */
#include "mips64.h"

#define PT_REGS_LINK 248
#define PT_REGS_SP 232
#define PT_REGS_STATUS 256
#define FROM_KERNEL(status) (!((status) & STATUS_MODE))
#define NOT_AHEAD 0x87f800 /* a block begins in a delay slot: the branch's target is in the state */
#define NOWHERE 0 /* libunicorn translates any other one, and raises exceptions for it */
#define REGION REGION_LOWEST
#include "../link_register.h"
#define PC pc
#define LINK gpr[31]
#define STACK gpr[29]
#define RESULT gpr[2]
#define ARGUMENTS gpr[4]
#include "../registers.h"

#define INSN_SIZE 4
#define AGENT_SAYS 0x7c00003fu /* address and size of what the agent says */

IMPORT(void, interrupt, mips_cpu_do_interrupt_mips64el, (void *processor)); /* enters the handler */
IMPORT(bool, restore, cpu_restore_state_mips64el, (void *processor, uintptr_t from, bool exits));
IMPORT(void, leave_run, cpu_loop_exit_mips64el, (void *processor)); /* these two do not return */
IMPORT(void, begin_block, cpu_loop_exit_noexc_mips64el, (void *processor));
static void (*original_raise)(state_t *s, u32 exception, int error, uintptr_t from);
static void (*original_leave)(void *processor, uintptr_t from);

bool takes_interrupts(const struct board *b)
{
	return (state(b)->status & STATUS_MASKS) == STATUS_IE;
}

static void enter(struct board *b, u32 exception, int error)
{
	AT(u32, processor(b), EXCEPTION) = exception;
	state(b)->error_code = error;
	interrupt(processor(b));
}

bool deliver_interrupt(struct board *b, int number)
{
	enter(b, number, 0);
	return true;
}

/* Leave libunicorn from within an instruction, which does not return. */
void end_run(struct board *b)
{
	AT(u32, processor(b), EXCEPTION) = HALT;
	leave_run(processor(b));
}

/* from: where in translated code, or 0 */
void raise_exception(state_t *s, u32 exception, int error, uintptr_t from)
{
	struct board *b = board_of(s);

	if (!b) {
		original_raise(s, exception, error, from);
		__builtin_unreachable();
	}
	if (from)
		restore(processor(b), from, true);
	if (exception >= FIRST_END) {
		AT(u32, processor(b), EXCEPTION) = exception;
		leave_run(processor(b));
	}
	AT(u32, engine(b), ENGINE_INVALID) = 0; /* set for a missing page, it would end the run */
	if (exception == RESERVED_INSTRUCTION && !FROM_KERNEL(s->status) &&
	    hears(b, s->pc, AGENT_SAYS)) {
		s->pc += INSN_SIZE;
		begin_block(processor(b));
	}
	left_block(b, s->pc + 1);
	if (exception == SYSTEM_CALL)
		b->syscalls++;
	else
		b->exceptions++;
	if (faults_again(b, exception))
		end_run(b);
	enter(b, exception, error);
	begin_block(processor(b));
	__builtin_unreachable();
}

/* ll and sc, which translate addresses themselves, leave by it with the exception set. */
static void leave_block(void *cpu, uintptr_t from)
{
	state_t *s = AT(state_t *, cpu, STATE);
	u32 exception = AT(u32, cpu, EXCEPTION);

	if (board_of(s) && exception < FIRST_END)
		raise_exception(s, exception, s->error_code, from);
	original_leave(cpu, from);
	__builtin_unreachable();
}

REPLACE_TOO(do_raise_exception_err_mips64el, raise_exception, original_raise);
REPLACE_TOO(cpu_loop_exit_restore_mips64el, leave_block, original_leave);
