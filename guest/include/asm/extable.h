/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Rows of the exception table: an instruction that may fault, where to go on, and what to do
 * before. Addresses are relative to the word that has them.
 */
#pragma once
#define EX_TYPE_DEFAULT 1
#define EX_TYPE_FAULT 2	 /* ax tells which trap it was */
#define EX_TYPE_UACCESS 3 /* the instruction reaches user memory */
#define EX_TYPE_IMM_REG 17 /* a register becomes EX_DATA_IMM, see EX_DATA_REG */

/* The bits above the type in the word data. */
#define EX_DATA_REG_SHIFT 8
#define EX_DATA_IMM_SHIFT 16
#define EX_DATA_REG(reg) ((reg) << EX_DATA_REG_SHIFT) /* its number in machine code: 0 is rax */
#define EX_DATA_IMM(imm) ((imm) << EX_DATA_IMM_SHIFT) /* a signed 16-bit number */

#ifndef __ASSEMBLER__
#include <linux/types.h>

struct pt_regs;
struct exception_table_entry { s32 insn, fixup, data; };
static inline unsigned long ex_to_insn(const struct exception_table_entry *x)
{
	return (unsigned long)&x->insn + x->insn;
}
const struct exception_table_entry *search_extable(const struct exception_table_entry *base,
						   size_t num, unsigned long value);
const struct exception_table_entry *search_exception_tables(unsigned long addr);
int fixup_exception(struct pt_regs *regs, int trapnr, unsigned long error_code,
		    unsigned long fault_addr);
#endif
