/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* Between text.c, the lookers that it calls, and the architectures. */
#include "../internal.h"
#include "text.h"

/* True: the instruction is left, by text_hold(), text_skip() or text_redirect(). */
typedef bool looker(struct board *b, struct look *l);
/* Called where a call has returned for which text_behind() was called. */
typedef void behind_looker(struct board *b, const struct behind *call);

/* ---- what an architecture has: decode.c and looks.c in its folder */
/* Fill the row of an instruction; its size stays 0 if it is none. size: bytes of text from there. */
void board_decode(const u8 *code, u64 size, struct insn *insn);
void look_up(struct board *b, struct look *l);        /* the operand, and where a call returns to */
u64 call_argument(const struct board *b, int number); /* of the call that is about to be made */
void set_argument(struct board *b, int number, u64 value);
void set_result(struct board *b, u64 value);
bool is_stack_register(u8 number);
extern const bool compares_in_registers; /* instructions have no operand in memory to compare with */
/* Note what registers hold behind an instruction of a function. known: 0 at its begin. */
void follow_registers(u64 *known, struct insn *i);
u64 string_source(const struct board *b); /* of an instruction that copies strings */
u64 register_value(const struct board *b, int number);
bool is_constant(const struct insn *i); /* its operand is always at the same address */
/* Return whether an instruction at an address loads, or compares with, the stack's canary. */
bool reads_canary(const struct texts *t, const struct insn *i, u64 addr);
/* Keep words of the stack that may be return addresses. sp: its pointer, or where a call returns. */
void keep_stack(struct board *b, u64 sp, u64 *to, int room);
u64 canary(struct board *b); /* of the task that runs */
u64 running_task(struct board *b);
u32 preempt_count(struct board *b);
bool is_text_address(const struct board *b, u64 word); /* of the kernel's or a module's, perhaps */
bool is_module_address(const struct board *b, u64 addr);
bool is_without_interrupts(const struct board *b);
void set_call(struct board *b, u64 ip, u64 sp, u64 result); /* NEVER: the result is open */
/* Have the function that is about to begin return to an address; return its stack pointer. */
u64 enter_call(struct board *b, u64 sp, u64 back);

/* Where a function begins: the address above its frame, as debug information counts from. */
u64 frame_top(const struct board *b);
u64 frame_word(struct board *b, u64 top); /* the same as long as a frame is there */

/* ---- lookers */
looker look_hold, look_fault, look_at_memory, look_at_locks;
behind_looker behind_memory, behind_locks;
void forget_locks(struct board *b, u64 first, u64 size);
bool is_lock_in_line(const struct insn *i);
void check_access(struct board *b, const struct look *l);
bool may_be_wrong(const struct insn *i);
void enter_memory(struct board *b, struct look *l); /* a function of the table begins */

/* ---- shadow.c, frames.c */
void mark_bytes(struct board *b, u64 addr, u64 size, u8 value);
void fill_words(struct board *b, u64 addr, u64 size);
struct shadow *shadow(const struct board *b);
void frame_begins(struct board *b, u64 addr);
void frame_ends(struct board *b);
/* Return the number of the variable on the stack that an address is in, plus 1, and where it ends; 0. */
u64 local_at(struct board *b, u64 addr, u64 *end);

/* ---- text.c */
void decode_at(struct board *b, u64 addr, u64 left, struct insn *i);
#define HARD_IRQ 0xff0000u /* in the count of preemption: interrupts and NMIs */
#define IN_SOFT_IRQ 0x100u
void text_hold(struct board *b, struct look *l);
void text_skip(struct board *b, struct look *l, u64 value);
void text_redirect(struct board *b, struct look *l, u64 function);
void text_call(struct board *b, struct look *l, u64 function);
struct behind *text_behind(struct board *b, struct look *l);
u64 physical(struct board *b, u64 addr);
u64 text_owner(struct board *b, u64 addr);
bool in_texts(struct board *b, u64 addr);
u64 running_context(struct board *b);
u64 keep_task(struct board *b, u64 *pid, u64 comm[2]);
struct finding *text_report(struct board *b, u64 kind, u64 at, u64 other);

static inline struct texts *texts(const struct board *b)
{
	return (struct texts *)(uintptr_t)b->texts;
}
