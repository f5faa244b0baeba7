// SPDX-License-Identifier: GPL-2.0-or-later
/* What lookers need of an arm64 processor: operands, arguments, calls. */
#include "../search/looks.h"
#include "arm64.h"

#define NR_ARGUMENTS 8
#define FRAME 29
#define MODULES 0x80000000ull /* modules are so near to the kernel, and below it */

const bool compares_in_registers = true;

u64 call_argument(const struct board *b, int number)
{
	return number < NR_ARGUMENTS ? general(b)[number] : 0;
}

void set_argument(struct board *b, int number, u64 value)
{
	general(b)[number] = value;
}

void set_result(struct board *b, u64 value)
{
	general(b)[0] = value;
}

bool is_stack_register(u8 number)
{
	return number == SP || number == FRAME;
}

/* There is no instruction that copies strings. */
u64 string_source(const struct board *b)
{
	(void)b;
	return 0;
}

u64 register_value(const struct board *b, int number)
{
	return number == SP ? 0 : general(b)[number];
}

bool is_constant(const struct insn *i)
{
	return i->base == REG_IP;
}

bool reads_canary(const struct texts *t, const struct insn *i, u64 addr)
{
	(void)addr;
	return i->more & MORE_OF_TASK && i->flags & INSN_READS && (u64)i->disp == t->canary;
}

u64 running_task(struct board *b)
{
	return FIELD(u64, b->state + ARM64_STATE_SP_EL0);
}

u64 canary(struct board *b)
{
	return read_word(b, running_task(b) + texts(b)->canary);
}

u32 preempt_count(struct board *b)
{
	return (u32)read_word(b, running_task(b) + texts(b)->count_of_preempt);
}

bool is_module_address(const struct board *b, u64 addr)
{
	return texts(b)->kernel - addr - 1 < MODULES;
}

bool is_text_address(const struct board *b, u64 word)
{
	return word - texts(b)->kernel < texts(b)->kernel_size || is_module_address(b, word);
}

/*
 * Frames are linked by their pointers. The innermost function may have none, and its return address
 * in a register; one that has a frame may have any there, as of its last call.
 */
void keep_stack(struct board *b, u64 sp, u64 *to, int room)
{
	u64 frame = general(b)[FRAME];
	int count = 0;

	if (sp == stack_pointer(b) && is_text_address(b, general(b)[LINK]))
		to[count++] = general(b)[LINK];
	while (count < room && frame >> 48 == 0xffff && !(frame & 7)) {
		u64 word = read_word(b, frame + 8), next = read_word(b, frame);

		if (is_text_address(b, word))
			to[count++] = word;
		if (next == frame)
			break;
		frame = next;
	}
	while (count < room)
		to[count++] = 0;
}

/* The caller has where it returns to at the end of its own frame. */
u64 frame_top(const struct board *b)
{
	return stack_pointer(b);
}

u64 frame_word(struct board *b, u64 top)
{
	return read_word(b, top + 8);
}

bool is_without_interrupts(const struct board *b)
{
	return !takes_interrupts(b);
}

static u64 operand(const struct board *b, const struct insn *i, u64 at)
{
	u64 index;

	if (i->base == REG_IP)
		return at + i->disp;
	if (i->index == REG_NONE)
		return general(b)[i->base] + i->disp;
	index = general(b)[i->index];
	if (i->scale & WORD_INDEX)
		index = (u32)index;
	else if (i->scale & SIGNED_INDEX)
		index = (int32_t)index;
	return general(b)[i->base] + index * (i->scale & ~(WORD_INDEX | SIGNED_INDEX));
}

/*
 * Fill in what the instruction that is about to begin accesses, and where its call returns to. The
 * task's own flags, and its count of preemption, are no access: interrupts leave them as they were.
 */
void look_up(struct board *b, struct look *l)
{
	const struct insn *i = l->insn;

	if (i->flags & (INSN_READS | INSN_WRITES)) {
		l->addr = operand(b, i, l->at);
		if (l->addr - running_task(b) >= texts(b)->count_of_preempt + 8)
			l->bytes = i->bytes;
	}
	if (!(i->flags & INSN_CALLS))
		return;
	l->sp = stack_pointer(b);
	l->back = i->flags & INSN_TAIL ? general(b)[LINK] : l->at + i->size;
}

/* Go on elsewhere. Context: between two runs. */
void set_call(struct board *b, u64 ip, u64 sp, u64 result)
{
	*pc(b) = ip;
	general(b)[SP] = sp;
	if (result != NEVER)
		general(b)[0] = result;
}

u64 enter_call(struct board *b, u64 sp, u64 back)
{
	general(b)[LINK] = back;
	return sp;
}
