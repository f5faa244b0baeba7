/* SPDX-License-Identifier: GPL-2.0-or-later */
/* clang-format off */
/*
 * Macros of the short ways: operands that the engine fills in (KP_FIXUP() of runtime.h, LITE_BASE),
 * and the state of this CPU.
 */
#include "runtime.h"
#include "offsets.h" /* KPC_GS_CPU and its like: scripts/asm-offsets */

	.macro PUSH_REGS regs:vararg
	.irp	reg, \regs
	pushq	%\reg
	.endr
	.endm

	.macro POP_REGS regs:vararg
	.irp	reg, \regs
	popq	%\reg
	.endr
	.endm

	.macro FUNC name
	.globl	\name
	.type	\name, @function
\name:
	.endm

	/* Save the registers that a called function may change. */
	.macro PUSH_SCRATCH
	PUSH_REGS rdi, rsi, rdx, rcx, rax, r8, r9, r10, r11
	.endm

	.macro POP_SCRATCH
	POP_REGS r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi
	.endm

	/* The 4 bytes that begin so many before here are a field of struct kp_config. */
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

	/* Load struct kp_cpu into rcx, or another of the first four registers. */
	.macro THIS_CPU reg=c
	movl	%gs:0, %e\reg\()x
	CONFIG	KPC_GS_CPU
	shlq	$8, %r\reg\()x
	addq	$LITE_BASE, %r\reg\()x
	CONFIG	KPC_CPUS
	.endm

	/* Jump to where the site goes on. */
	.macro JUMP
	.byte	0xe9
	.long	LITE_BASE
	FIELD	LITE_CONT
	.endm

	/* Push the node at rdx to the list of the task; tmp and rsi are lost. */
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
