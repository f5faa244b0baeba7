/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Jprobes: the way into the entry function and back out of it. A site whose handlers are a
 * jprobe and perhaps return probes is entered here: its registers and the top of the stack go
 * straight to struct kp_jprobe, where they wait. What is not simple takes the long way, by
 * setjmp() and kp_longjmp() of runtime.c, which do the same with a struct pt_regs and whatever
 * handlers there are.
 */
#include "asm.h"

	/* rcx: struct kp_cpu, rdx: its struct kp_jprobe */
	.macro THIS_JPROBE
	THIS_CPU
	movq	CPU_JPROBE(%rcx), %rdx
	.endm

	.text

	/* As kp_entry_\name: behind [ss or return address][site]. */
#define SITE 40
#define FRAME 56 /* the stack of the probed function */
	.macro JPROBE name kind
FUNC kp_entry_\name\()_jprobe
	pushq	%rax
	pushfq
	pushq	%rcx
	pushq	%rdx
	pushq	%rsi
	THIS_JPROBE
	movq	SITE(%rsp), %rsi
	leaq	FRAME(%rsp), %rax
	andl	$KP_THREAD_SIZE - 1, %eax
	subq	$KP_THREAD_SIZE - KP_MAX_STACK_SIZE + 1, %rax
	notq	%rax
	shrq	$63, %rax	/* there is less on the stack than is saved */
	orq	CPU_CURRENT(%rcx), %rax
	jnz	8f
	movq	SITE_FIRST(%rsi), %rax
	cmpq	$0, (%rax)
	je	1f
	pushq	%rdi
	pushq	%r8
	pushq	%r9
	pushq	%r10
	pushq	%r11
	movq	%rsi, %rdi
	leaq	FRAME+40(%rsp), %rsi
	call	kp_krets
	popq	%r11
	popq	%r10
	popq	%r9
	popq	%r8
	popq	%rdi
	testq	%rax, %rax
	jz	8f
	THIS_JPROBE
	movq	SITE(%rsp), %rsi
1:	incq	SITE_HITS(%rsi)
	movq	%rsi, CPU_CURRENT(%rcx)
	movq	$KP_HIT_ACTIVE, CPU_STATUS(%rcx)
	movq	$\kind, CPU_KIND(%rcx)
	movq	%rax, CPU_INSTANCE(%rcx)
	movq	HANDLER_DATA(%rax), %rax
	movq	%rax, SITE+8(%rsp)	/* to go on at */
	.irpc	i, 01234567
	movq	FRAME+8*\i(%rsp), %rax
	movq	%rax, JPROBE_STACK+8*\i(%rdx)
	.endr
	movq	$KP_MAX_STACK_SIZE, JPROBE_SIZE(%rdx)
	leaq	FRAME(%rsp), %rax
	movq	%rax, PT_SP(%rdx)
	movq	%r15, 0(%rdx)
	movq	%r14, 8(%rdx)
	movq	%r13, 16(%rdx)
	movq	%r12, 24(%rdx)
	movq	%rbp, 32(%rdx)
	movq	%rbx, 40(%rdx)
	movq	%r11, 48(%rdx)
	movq	%r10, 56(%rdx)
	movq	%r9, 64(%rdx)
	movq	%r8, 72(%rdx)
	movq	%rdi, 112(%rdx)
	movq	%rdx, %rcx
	popq	%rsi
	movq	%rsi, 104(%rcx)
	popq	%rdx
	movq	%rdx, 96(%rcx)
	popq	%rax
	movq	%rax, 88(%rcx)
	popq	%rax
	movq	%rax, PT_FLAGS(%rcx)
	popq	%rax
	movq	%rax, 80(%rcx)
	movq	88(%rcx), %rcx
	addl	$1, %gs:0
771:	.pushsection .kp_fixups, "a"
	.long	771b - 5 - ., 0x6b700000 + KPC_GS_PREEMPT
	.popsection
	leaq	8(%rsp), %rsp
	cli
	ret
8:	popq	%rsi
	popq	%rdx
	popq	%rcx
	movq	8(%rsp), %rax
	popfq
	leaq	8(%rsp), %rsp
	jmp	kp_entry_\name
	.size	kp_entry_\name\()_jprobe, . - kp_entry_\name\()_jprobe
	.endm

	JPROBE	int3 KP_INT3
	JPROBE	ftrace KP_FTRACE

	/*
	 * The trap of jprobe_return(). What the registers are now is of no interest. The
	 * flags and where to go on are put below the stack pointer that is restored.
	 */
FUNC kp_jprobe_trap
	THIS_JPROBE
	movq	CPU_CURRENT(%rcx), %rsi
	testq	%rsi, %rsi
	jz	8f
	movq	JPROBE_SIZE(%rdx), %rax
	xorq	$KP_MAX_STACK_SIZE, %rax
	movq	SITE_FLAGS(%rsi), %r8
	andl	$SITE_SINGLESTEP | SITE_POST, %r8d
	orq	%r8, %rax
	jnz	8f
	movq	%rax, JPROBE_SIZE(%rdx)
	movq	%rax, CPU_CURRENT(%rcx)
	movq	%rax, CPU_STATUS(%rcx)
	movq	PT_SP(%rdx), %rsp
	.irpc	i, 01234567
	movq	JPROBE_STACK+8*\i(%rdx), %rax
	movq	%rax, 8*\i(%rsp)
	.endr
	pushq	SITE_CONT(%rsi)
	pushq	PT_FLAGS(%rdx)
	subl	$1, %gs:0
771:	.pushsection .kp_fixups, "a"
	.long	771b - 5 - ., 0x6b700000 + KPC_GS_PREEMPT
	.popsection
7:	movq	0(%rdx), %r15
	movq	8(%rdx), %r14
	movq	16(%rdx), %r13
	movq	24(%rdx), %r12
	movq	32(%rdx), %rbp
	movq	40(%rdx), %rbx
	movq	48(%rdx), %r11
	movq	56(%rdx), %r10
	movq	64(%rdx), %r9
	movq	72(%rdx), %r8
	movq	80(%rdx), %rax
	movq	88(%rdx), %rcx
	movq	104(%rdx), %rsi
	movq	112(%rdx), %rdi
	movq	96(%rdx), %rdx
	popfq
	ret
8:	subq	$64, %rsp
	call	kp_longjmp
	testq	%rax, %rax
	jz	9f
	movq	PT_SP(%rdx), %rsp
	leaq	-16(%rsp), %rsp
	jmp	7b
9:	addq	$64, %rsp
	int3	/* nobody's: an oops */
	ret
	.size	kp_jprobe_trap, . - kp_jprobe_trap

	.section .note.GNU-stack, "", @progbits
