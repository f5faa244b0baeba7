/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where return probes stand beside users' pre_handlers: what enter() does, without a walk
 * over the list. engine/arch/x86/stub.py makes a block for each such site of the pieces
 * below: the head, one for each handler, the end. As in lite.S, nothing is run where it
 * stands, and what is not simple takes the long way.
 *
 * In a block, rsp: struct pt_regs, rbx: struct kp_cpu, r12: struct kp_site. A handler that
 * is called from it returns to it, so it is never written anew. For the sake of speed a
 * stack trace made by a handler goes without the names of Linux's functions.
 */
#include "frame.h"

	.text

	.macro PIECE name code:vararg
	.globl	kp_lite_\name, kp_lite_\name\()_end
kp_lite_\name:
	\code
kp_lite_\name\()_end:
	.endm

	/* Do what a stub, entry.S and then enter() do. */
	.macro HEAD name kind context
	.if	\kind == KP_FTRACE
	leaq	-8(%rsp), %rsp
	.else
	leaq	-16(%rsp), %rsp
	.endif
	FRAME	\kind
	THIS_CPU b
	movq	$LITE_BASE, %r12
	FIELD	LITE_SITE
	cmpq	$0, CPU_CURRENT_KPROBE(%rbx)
	jne	kp_krets_\name\()_long
	FIELD	LITE_REL
	incq	SITE_HITS(%r12)
	movq	%r12, CPU_CURRENT_KPROBE(%rbx)
	movq	$KP_HIT_ACTIVE, CPU_STATUS(%rbx)
	movq	$\kind, CPU_KIND(%rbx)
	movq	%rsp, CPU_REGS(%rbx)
	movq	$LITE_BASE + 1, PT_IP(%rsp)
	FIELD	LITE_ADDR
	PREEMPT	addl \context
	.endm

	/* Call a handler, unless it is disabled. */
	.macro CALL_HANDLER name kind
	movq	$LITE_BASE, %rbp
	FIELD	LITE_HANDLER
	testb	$HANDLER_DISABLED, HANDLER_FLAGS(%rbp)
	jnz	6f
	movq	%rbp, CPU_INSTANCE(%rbx)
	movq	HANDLER_ARG(%rbp), %rdi
	movq	%rsp, %rsi
	call	*HANDLER_FN(%rbp)
	.if	\kind != KP_OPT
	testl	%eax, %eax
	jnz	kp_krets_\name\()_changed
	FIELD	LITE_REL
	.endif
6:
	.endm

	/* Push a return probe's newest free node to the task's list. See KRET in lite.S. */
	.macro HOOK name kind
	movq	LITE_BASE+RETHOOK_FREE, %rdx
	FIELD	LITE_DATA
	cmpq	$1, %rdx
	sbbq	%rcx, %rcx
	orq	LITE_BASE+RETHOOK_LONG_WAY, %rcx
	FIELD	LITE_DATA
	orq	LITE_BASE+HANDLER_FLAGS, %rcx
	FIELD	LITE_HANDLER
	jz	1f
	CALL_HANDLER \name \kind
	jmp	2f
1:	movq	(%rdx), %rcx
	movq	%rcx, LITE_BASE+RETHOOK_FREE
	FIELD	LITE_DATA
	movq	PT_SP(%rsp), %rcx
	movq	%rcx, NODE_FRAME(%rdx)
	movq	(%rcx), %rsi
	movq	%rsi, NODE_RET_ADDR(%rdx)
	movq	$arch_rethook_trampoline, (%rcx)
	PUSH_NODE %rcx
2:
	.endm

	/* Leave the block. step: the slot ends in a trap, at which the site is left. */
	.macro LEAVE_BLOCK kind context step
	.if	\step
	PREEMPT	subl \context
	movq	$KP_HIT_SS, CPU_STATUS(%rbx)
	.else
	LEAVE_SITE \context
	.endif
	.if	\kind != KP_OPT
	leaq	PT_SIZE(%rsp), %rdx
	cmpq	%rdx, PT_SP(%rsp)
	leaq	LITE_BASE(%rip), %rax
	FIELD	LITE_CONT
	jne	kp_leave	/* a handler moved the stack */
	FIELD	LITE_REL
	.endif
	RESTORE_REGS
	leaq	PT_FLAGS-PT_ORIG_AX(%rsp), %rsp
	popfq
	leaq	PT_SIZE-PT_SP(%rsp), %rsp
	JUMP
	.endm

	.macro BLOCK name entry kind context step=0
	PIECE	\name\()_krets HEAD \entry \kind \context
	PIECE	\name\()_krets_kret HOOK \entry \kind
	PIECE	\name\()_krets_pre CALL_HANDLER \entry \kind
	PIECE	\name\()_krets_leave LEAVE_BLOCK \kind \context \step
	.endm

	BLOCK	int3 int3 KP_INT3 NMI_CONTEXT
	BLOCK	step int3 KP_INT3 NMI_CONTEXT 1
	BLOCK	ftrace ftrace KP_FTRACE 1
	BLOCK	opt opt KP_OPT 1

	.section .note.GNU-stack, "", @progbits
