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

	/* Enter as kp_entry_\name does: behind [ss or return address][site]. */
#define SITE 40
#define FRAME 56 /* the stack of the probed function */
	.macro JPROBE name kind
FUNC kp_entry_\name\()_jprobe
	pushq	%rax
	pushfq
	PUSH_REGS rcx, rdx, rsi
	THIS_JPROBE
	movq	SITE(%rsp), %rsi
	leaq	FRAME(%rsp), %rax
	andl	$KP_THREAD_SIZE - 1, %eax
	subq	$KP_THREAD_SIZE - KP_MAX_STACK_SIZE + 1, %rax
	notq	%rax
	shrq	$63, %rax	/* there is less on the stack than is saved */
	orq	CPU_CURRENT_KPROBE(%rcx), %rax
	jnz	8f
	movq	SITE_FIRST(%rsi), %rax
	cmpq	$0, (%rax)
	je	1f
	PUSH_REGS rdi, r8, r9, r10, r11
	movq	%rsi, %rdi
	leaq	FRAME+40(%rsp), %rsi
	call	kp_krets
	POP_REGS r11, r10, r9, r8, rdi
	testq	%rax, %rax
	jz	8f
	THIS_JPROBE
	movq	SITE(%rsp), %rsi
1:	incq	SITE_HITS(%rsi)
	movq	%rsi, CPU_CURRENT_KPROBE(%rcx)
	movq	$KP_HIT_ACTIVE, CPU_STATUS(%rcx)
	movq	$\kind, CPU_KIND(%rcx)
	movq	%rdx, CPU_REGS(%rcx)
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
	.set	at, 0
	.irp	reg, r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8
	movq	%\reg, at(%rdx)
	.set	at, at + 8
	.endr
	movq	%rdi, PT_DI(%rdx)
	movq	%rdx, %rcx
	popq	%rsi
	movq	%rsi, PT_SI(%rcx)
	popq	%rdx
	movq	%rdx, PT_DX(%rcx)
	popq	%rax
	movq	%rax, PT_CX(%rcx)
	popq	%rax
	movq	%rax, PT_FLAGS(%rcx)
	popq	%rax
	movq	%rax, PT_AX(%rcx)
	movq	PT_CX(%rcx), %rcx
	addl	$1, %gs:0
	CONFIG	KPC_GS_PREEMPT 5
	leaq	8(%rsp), %rsp
	cli
	ret
8:	POP_REGS rsi, rdx, rcx
	movq	8(%rsp), %rax
	popfq
	leaq	8(%rsp), %rsp
	jmp	kp_entry_\name
	.size	kp_entry_\name\()_jprobe, . - kp_entry_\name\()_jprobe
	.endm

	JPROBE	int3 KP_INT3
	JPROBE	ftrace KP_FTRACE

	/*
	 * Handle the trap of jprobe_return(). The registers of now do not matter. The flags and
	 * where to go on are put below the stack pointer that is restored.
	 */
FUNC kp_jprobe_trap
	THIS_JPROBE
	movq	CPU_CURRENT_KPROBE(%rcx), %rsi
	testq	%rsi, %rsi
	jz	8f
	movq	JPROBE_SIZE(%rdx), %rax
	xorq	$KP_MAX_STACK_SIZE, %rax
	movq	SITE_FLAGS(%rsi), %r8
	andl	$SITE_SINGLESTEP | SITE_POST, %r8d
	orq	%r8, %rax
	jnz	8f
	movq	%rax, JPROBE_SIZE(%rdx)
	movq	%rax, CPU_CURRENT_KPROBE(%rcx)
	movq	%rax, CPU_STATUS(%rcx)
	movq	PT_SP(%rdx), %rsp
	.irpc	i, 01234567
	movq	JPROBE_STACK+8*\i(%rdx), %rax
	movq	%rax, 8*\i(%rsp)
	.endr
	pushq	SITE_CONT(%rsi)
	pushq	PT_FLAGS(%rdx)
	subl	$1, %gs:0
	CONFIG	KPC_GS_PREEMPT 5
7:
	.set	at, 0
	.irp	reg, r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx
	movq	at(%rdx), %\reg
	.set	at, at + 8
	.endr
	movq	PT_SI(%rdx), %rsi
	movq	PT_DI(%rdx), %rdi
	movq	PT_DX(%rdx), %rdx
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
