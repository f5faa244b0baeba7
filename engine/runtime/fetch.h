/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Programs that fetch the arguments of an event and that decide whether its filter lets a
 * record pass. engine/trace/probe/fetch.py and engine/trace/event/filter.py write them,
 * fetch.c runs them.
 */
#pragma once
#include "runtime.h"

#define HC_SYMBOL 0x30 /* mail: address, buffer, size; mail_ret: length without the NUL */

/* The arguments of an event: nr_args times struct kp_arg follow. */
struct kp_prog {
	u32 nr_args;
	u32 size;    /* bytes of the arguments' fixed part */
	u32 start;   /* the offset in the record of the first of them */
	u32 dynamic; /* some argument is a string */
};

/* An argument is taken from somewhere, stored, and what is stored may be worked on. */
enum { OP_END, OP_REG, OP_STACK, OP_IMM, OP_COMM, OP_DEREF, OP_UDEREF };
enum { OP_ST_RAW = 7, OP_ST_MEM, OP_ST_UMEM, OP_ST_STRING, OP_ST_USTRING, OP_ST_SYMSTR };
enum { OP_MOD_BF = 13, OP_LP_ARRAY };
struct kp_insn {
	u8 op;
	u8 size;
	u16 count;
	u8 lshift;
	u8 rshift;
	u16 pad;
	u64 value;
};
struct kp_arg {
	u32 offset; /* in the record */
	u16 nr_insns;
	u16 dynamic;
	struct kp_insn insns[];
};

/* A filter is an array of predicates; each says where to go on after either answer. */
#define FILTER_ACCEPT 0xffff
#define FILTER_REJECT 0xfffe
enum { PRED_EQ, PRED_NE, PRED_LT, PRED_LE, PRED_GT, PRED_GE, PRED_BAND };
enum { PRED_FULL = 7, PRED_FRONT, PRED_MIDDLE, PRED_END, PRED_GLOB }; /* of strings */
#define PRED_SIGNED 1 /* kp_pred.flags: a number */
#define PRED_NOT 2    /* a string that must not fit */
enum {
	FROM_RECORD,   /* size bytes at offset */
	FROM_DYNAMIC,  /* a string where the word at offset says */
	FROM_RELATIVE, /* the same, counted from the end of the word */
	FROM_CPU,
	FROM_COMM,
	FROM_KERNEL,
	FROM_USER, /* a string that the word at offset points to */
};
struct kp_pred {
	u8 op;
	u8 from;
	u8 flags;
	u8 pad;
	u16 yes; /* number of a predicate, or FILTER_* */
	u16 no;
	u32 offset;
	u16 size;   /* of the field; of a number 1, 2, 4, 8 */
	u16 length; /* of the string at value, without its NUL */
	u64 value;
};

u64 kp_dynamic_size(const struct kp_prog *p, struct pt_regs *regs);
void kp_store_args(const struct kp_prog *p, struct pt_regs *regs, u8 *record, u64 room);
int kp_filter_match(const struct kp_pred *preds, const u8 *record);
