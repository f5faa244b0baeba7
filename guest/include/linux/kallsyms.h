/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/types.h>
#define KSYM_NAME_LEN 128
#define KSYM_SYMBOL_LEN 192
unsigned long kallsyms_lookup_name(const char *name);
const char *kallsyms_lookup(unsigned long addr, unsigned long *size, unsigned long *offset,
			    char **modname, char *namebuf);
int sprint_symbol(char *buf, unsigned long addr);
int sprint_symbol_no_offset(char *buf, unsigned long addr);
int sprint_backtrace(char *buf, unsigned long addr);
