// SPDX-License-Identifier: GPL-2.0-or-later
/* What lookers need of an x86-64 processor: operands, arguments, calls. */
#include "../search/looks.h"
#include "x86.h"

#define KERNEL_TEXT 0xffffffff80000000ull
#define MODULES 0xffffffffc0000000ull /* their text and data are above */

const bool compares_in_registers = false;

static const u8 arguments[] = { RDI, RSI, RDX, RCX, R8, R9 };

u64 call_argument(const struct board *b, int number)
{
	return number < (int)sizeof(arguments) ? state(b)->regs[arguments[number]] : 0;
}

void set_argument(struct board *b, int number, u64 value)
{
	state(b)->regs[arguments[number]] = value;
}

void set_result(struct board *b, u64 value)
{
	state(b)->regs[RAX] = value;
}

bool is_stack_register(u8 number)
{
	return number == RSP || number == RBP;
}

u64 string_source(const struct board *b)
{
	return state(b)->regs[RSI];
}

u64 register_value(const struct board *b, int number)
{
	return state(b)->regs[number];
}

void follow_registers(u64 *known, struct insn *i)
{
	(void)known, (void)i;
}

bool is_constant(const struct insn *i)
{
	return (i->base == REG_NONE || i->base == REG_IP) && i->index == REG_NONE &&
	       !(i->flags & (INSN_STRING | INSN_PER_CPU | INSN_BITS));
}

/* Return a word of the running processor's data. */
static u64 of_processor(struct board *b, u64 offset)
{
	return read_word(b, state(b)->segs[GS].base + offset);
}

bool reads_canary(const struct texts *t, const struct insn *i, u64 addr)
{
	u64 operand = (int64_t)i->disp + (i->base == REG_IP ? addr + i->size : 0);

	return i->flags & INSN_PER_CPU && i->flags & INSN_READS && operand == t->canary;
}

u64 canary(struct board *b)
{
	return of_processor(b, texts(b)->canary);
}

u64 running_task(struct board *b)
{
	return of_processor(b, texts(b)->current);
}

u32 preempt_count(struct board *b)
{
	u64 at = texts(b)->count_of_preempt;

	return at == NEVER ? 0 : (u32)of_processor(b, at);
}

bool is_text_address(const struct board *b, u64 word)
{
	(void)b;
	return word >= KERNEL_TEXT && word < (u64)-4096;
}

/* Keep the words of a stack that may be return addresses. */
void keep_stack(struct board *b, u64 sp, u64 *to, int room)
{
	u64 end = (sp | (STACK_SIZE - 1)) + 1;
	int count = 0;

	for (sp &= ~7ull; sp < end && count < room; sp += 8) {
		u64 word = read_word(b, sp);

		if (is_text_address(b, word))
			to[count++] = word;
	}
	while (count < room)
		to[count++] = 0;
}

bool is_module_address(const struct board *b, u64 addr)
{
	(void)b;
	return addr >= MODULES;
}

bool is_without_interrupts(const struct board *b)
{
	return !(state(b)->flags & FLAGS_IF);
}

/* Return the address of an instruction's operand in memory. */
static u64 operand(const struct board *b, const struct insn *i, u64 at)
{
	const struct x86_state *s = state(b);
	u64 addr = (int64_t)i->disp;

	if (i->flags & INSN_STRING)
		return s->regs[i->flags & INSN_WRITES ? RDI : RSI];
	if (i->base == REG_IP)
		addr += at + i->size;
	else if (i->base != REG_NONE)
		addr += s->regs[i->base];
	if (i->index != REG_NONE)
		addr += s->regs[i->index] * i->scale;
	if (i->flags & INSN_BITS) {
		int64_t bit = s->regs[i->reg];

		/* bits are numbered from the operand on, in both directions */
		if (i->bytes == 4)
			bit = (int32_t)bit;
		else if (i->bytes == 2)
			bit = (int16_t)bit;
		addr += (bit >> (i->bytes == 8 ? 6 : i->bytes == 4 ? 5 : 4)) * i->bytes;
	}
	if (i->flags & INSN_PER_CPU)
		addr += s->segs[GS].base;
	return addr;
}

/* Fill in what the instruction that is about to begin accesses, and where its call returns to. */
void look_up(struct board *b, struct look *l)
{
	const struct insn *i = l->insn;

	/* it begins once more when it has done its last element */
	if (i->flags & INSN_REPEATS && !state(b)->regs[RCX])
		return;
	if (i->flags & (INSN_READS | INSN_WRITES)) {
		l->addr = operand(b, i, l->at);
		l->bytes = i->bytes;
	}
	if (!(i->flags & INSN_CALLS))
		return;
	l->sp = state(b)->regs[RSP];
	l->back = l->at + i->size;
	if (i->flags & INSN_TAIL) {
		l->back = read_word(b, l->sp);
		l->sp += 8;
	}
}

/* Go on elsewhere. Context: between two runs. */
void set_call(struct board *b, u64 ip, u64 sp, u64 result)
{
	struct x86_state *s = state(b);

	s->ip = ip;
	s->regs[RSP] = sp;
	if (result != NEVER)
		s->regs[RAX] = result;
}

u64 frame_top(const struct board *b)
{
	return stack_pointer(b) + 8;
}

u64 frame_word(struct board *b, u64 top)
{
	return read_word(b, top - 8); /* where it returns to */
}

u64 enter_call(struct board *b, u64 sp, u64 back)
{
	push_word(b, sp - 8, back);
	return sp - 8;
}
