/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Rows of __ex_table for assembly, and for the assembly in C. */
#pragma once
#include <asm/extable.h>

#ifdef __ASSEMBLER__
/* clang-format off */
.macro _ASM_EXTABLE_TYPE from, to, type
	.pushsection __ex_table, "a"
	.balign 4
	.long \from - ., \to - ., \type
	.popsection
.endm
#define _ASM_EXTABLE(from, to) _ASM_EXTABLE_TYPE from, to, EX_TYPE_DEFAULT
#define _ASM_EXTABLE_UA(from, to) _ASM_EXTABLE_TYPE from, to, EX_TYPE_UACCESS
#define _ASM_EXTABLE_FAULT(from, to) _ASM_EXTABLE_TYPE from, to, EX_TYPE_FAULT
#else
#define _ASM_EXTABLE_TYPE(from, to, type) \
	".pushsection __ex_table, \"a\"\n.balign 4\n" \
	".long " #from " - ., " #to " - ., " __stringify(type) "\n.popsection\n"
#define _ASM_EXTABLE(from, to) _ASM_EXTABLE_TYPE(from, to, EX_TYPE_DEFAULT)
#define _ASM_EXTABLE_UA(from, to) _ASM_EXTABLE_TYPE(from, to, EX_TYPE_UACCESS)
#define _ASM_EXTABLE_FAULT(from, to) _ASM_EXTABLE_TYPE(from, to, EX_TYPE_FAULT)
#endif
