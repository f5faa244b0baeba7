/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#ifdef __ASSEMBLER__
/* clang-format off */
.macro SYM_FUNC_START name
	.globl \name
	.type \name, @function
	.balign 16
\name:
.endm
.macro SYM_CODE_START name
	SYM_FUNC_START \name
.endm
.macro SYM_INNER_LABEL name
	.globl \name
	.type \name, @notype
\name:
.endm
.macro SYM_FUNC_END name
	.size \name, . - \name
.endm
.macro SYM_CODE_END name
	SYM_FUNC_END \name
.endm
.macro _ASM_NOKPROBE name
	.pushsection _kprobe_blacklist, "a"
	.balign 8
	.quad \name
	.popsection
.endm
#endif
