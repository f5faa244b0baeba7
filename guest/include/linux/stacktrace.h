/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/types.h>

struct pt_regs;
unsigned int stack_trace_save(unsigned long *store, unsigned int size, unsigned int skipnr);
unsigned int stack_trace_save_regs(struct pt_regs *regs, unsigned long *store, unsigned int size,
				   unsigned int skipnr);
void stack_trace_print(const unsigned long *entries, unsigned int nr_entries, int spaces);
