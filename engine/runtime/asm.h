/* SPDX-License-Identifier: GPL-2.0-or-later */
/* clang-format off */
/*
 * Macros of the short ways: operands that the engine fills in (KP_FIXUP() of runtime.h, LITE_BASE),
 * and the state of this CPU.
 */
#include "runtime.h"

	.macro FUNC name
	.globl	\name
	.type	\name, @function
\name:
	.endm

	/* The registers that a called function may change. */
	.macro PUSH_SCRATCH
	pushq	%rdi
	pushq	%rsi
	pushq	%rdx
	pushq	%rcx
	pushq	%rax
	pushq	%r8
	pushq	%r9
	pushq	%r10
	pushq	%r11
	.endm

	.macro POP_SCRATCH
	popq	%r11
	popq	%r10
	popq	%r9
	popq	%r8
	popq	%rax
	popq	%rcx
	popq	%rdx
	popq	%rsi
	popq	%rdi
	.endm

	/* The bytes before are a field of struct kp_config. */
	.macro CONFIG field size=4
771:	.pushsection .kp_fixups, "a"
	.long	771b - \size - ., 0x6b700000 + \field
	.popsection
	.endm

	/* The 4 bytes before are LITE_BASE + n: the engine replaces LITE_BASE. */
	.macro FIELD what
771:	.pushsection .kp_lite_fixups, "a"
	.long	771b - 4 - ., LITE_MARK + \what
	.popsection
	.endm

	/* rcx, or another of the first four registers: struct kp_cpu */
	.macro THIS_CPU reg=c
	movl	%gs:0, %e\reg\()x
	CONFIG	KPC_GS_CPU
	shlq	$8, %r\reg\()x
	addq	$LITE_BASE, %r\reg\()x
	CONFIG	KPC_CPUS
	.endm

	/* To where the site goes on. */
	.macro JUMP
	.byte	0xe9
	.long	LITE_BASE
	FIELD	LITE_CONT
	.endm

	/* The node at rdx goes to the task's list; tmp and rsi are lost. */
	.macro PUSH_NODE tmp
	movq	%gs:0, %rsi
	CONFIG	KPC_GS_CURRENT
	movq	%rsi, NODE_TASK(%rdx)
	movq	LITE_BASE(%rsi), \tmp
	CONFIG	KPC_TASK_RETHOOKS
	movq	\tmp, (%rdx)
	movq	%rdx, LITE_BASE(%rsi)
	CONFIG	KPC_TASK_RETHOOKS
	.endm
