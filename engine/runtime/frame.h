/* SPDX-License-Identifier: GPL-2.0-or-later */
/* clang-format off */
/* Macros of the ways in that build a whole struct pt_regs. */
#include "asm.h"

	/* Save what lies below ss and sp. The flags are saved before anything changes them. */
	.macro SAVE_REGS
	pushfq
	SAVE_REST
	.endm

	.macro SAVE_REST
	pushq	$KP_CS
	leaq	PT_ORIG_AX-PT_CS(%rsp), %rsp
	PUSH_SCRATCH
	PUSH_REGS rbx, rbp, r12, r13, r14, r15
	movq	$-1, PT_ORIG_AX(%rsp)
	cld
	.endm

	.macro RESTORE_REGS
	POP_REGS r15, r14, r13, r12, rbp, rbx
	POP_SCRATCH
	.endm

	/* Build a struct pt_regs at rsp; the word that stood in place of sp goes to \site. */
	.macro FRAME kind site
	SAVE_REGS
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

	/* Clear current_kprobe of struct kp_cpu at rbx; rcx is lost. */
	.macro LEAVE_SITE context
	PREEMPT	subl \context
	movq	$0, CPU_CURRENT_KPROBE(%rbx)
	movq	$0, CPU_STATUS(%rbx)
	.endm
