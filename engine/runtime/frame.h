/* SPDX-License-Identifier: GPL-2.0-or-later */
/* clang-format off */
/* Macros of the ways in that build a whole struct pt_regs. */
#include "asm.h"

	/* Below ss and sp. The flags are saved before anything changes them. */
	.macro SAVE
	pushfq
	SAVE_REST
	.endm

	.macro SAVE_REST
	pushq	$KP_CS
	leaq	PT_ORIG_AX-PT_CS(%rsp), %rsp
	PUSH_SCRATCH
	pushq	%rbx
	pushq	%rbp
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	movq	$-1, PT_ORIG_AX(%rsp)
	cld
	.endm

	.macro RESTORE
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbp
	popq	%rbx
	POP_SCRATCH
	.endm

	/* A whole struct pt_regs at rsp; the word that stood in place of sp goes to \site. */
	.macro FRAME kind site
	SAVE
	.if	\kind == KP_INT3
	cli	/* as behind an interrupt gate */
	.endif
	.ifnb	\site
	movq	PT_SP(%rsp), \site
	.endif
	leaq	PT_SIZE(%rsp), %rax
	movq	%rax, PT_SP(%rsp)
	movq	$KP_SS, PT_SS(%rsp)
	.endm

	.macro PREEMPT op context
	movl	$\context, %ecx
	\op	%ecx, %gs:0
	CONFIG	KPC_GS_PREEMPT
	.endm

	/* rbx: struct kp_cpu, whose current_kprobe is done with; rcx is lost. */
	.macro LEAVE_SITE context
	PREEMPT	subl \context
	movq	$0, CPU_CURRENT(%rbx)
	movq	$0, CPU_STATUS(%rbx)
	.endm
