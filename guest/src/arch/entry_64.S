/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Ways into the kernel. There is no ring 3: a task enters a system call by a plain call
 * of entry_SYSCALL_64, and Python pushes the frame of an interrupt or exception on the
 * current stack, as a CPU would without a change of privilege.
 */
#include <asm/linkage.h>
#include <kpfs/abi.h>

.macro PUSH_REGS
	cld
	push	%rdi
	push	%rsi
	push	%rdx
	push	%rcx
	push	%rax
	push	%r8
	push	%r9
	push	%r10
	push	%r11
	push	%rbx
	push	%rbp
	push	%r12
	push	%r13
	push	%r14
	push	%r15
.endm

.macro POP_REGS
	pop	%r15
	pop	%r14
	pop	%r13
	pop	%r12
	pop	%rbp
	pop	%rbx
	pop	%r11
	pop	%r10
	pop	%r9
	pop	%r8
	pop	%rax
	pop	%rcx
	pop	%rdx
	pop	%rsi
	pop	%rdi
.endm

	.section .entry.text, "ax"

/*
 * long entry_SYSCALL_64(struct kpfs_request *req): build pt_regs as of user mode, run
 * the system call, result in RAX. The request is read before the call only.
 */
SYM_CODE_START entry_SYSCALL_64
	push	%rbx
	push	%rbp
	push	%r12
	push	%r13
	push	%r14
	push	%r15
	mov	%rsp, %r12
	mov	%rdi, %rbx
	mov	%gs:0x08, %rdx			/* current */
	sub	$8, %rsp
	pushq	$0x2b
	pushq	%r12
	pushfq
	pushq	$0x33
	lea	.Lsyscall_insn(%rip), %rax
	pushq	%rax
	pushq	8(%rbx)				/* orig_ax: number */
	pushq	16(%rbx)			/* di */
	pushq	24(%rbx)			/* si */
	pushq	32(%rbx)			/* dx */
	pushq	%rax				/* cx */
	pushq	$-38				/* ax */
	pushq	48(%rbx)			/* r8 */
	pushq	56(%rbx)			/* r9 */
	pushq	40(%rbx)			/* r10 */
	pushq	$0x246				/* r11 */
	pushq	$0				/* bx, bp, r12 to r15 */
	pushq	$0
	pushq	$0
	pushq	$0
	pushq	$0
	pushq	$0
SYM_INNER_LABEL entry_SYSCALL_64_after_hwframe
	mov	%rsp, %rdi
	movslq	8(%rbx), %rsi
	call	do_syscall_64
	mov	10 * 8(%rsp), %rax
.Lsyscall_insn:
	mov	%r12, %rsp
	pop	%r15
	pop	%r14
	pop	%r13
	pop	%r12
	pop	%rbp
	pop	%rbx
	ret
SYM_CODE_END entry_SYSCALL_64

/* First run of a forked task: RAX is the task before, RBX a function, R12 its argument. */
SYM_CODE_START ret_from_fork
	mov	%rax, %rdi
	call	schedule_tail
	mov	%r12, %rdi
	call	*%rbx
	mov	%eax, %edi
	call	do_exit
	ud2
SYM_CODE_END ret_from_fork

/* struct task_struct *__switch_to_asm(prev, next); thread.sp is at TASK_threadsp. */
SYM_FUNC_START __switch_to_asm
	push	%rbp
	push	%rbx
	push	%r12
	push	%r13
	push	%r14
	push	%r15
	mov	task_thread_sp(%rip), %eax
	mov	%rsp, (%rdi,%rax)
	mov	(%rsi,%rax), %rsp
	pop	%r15
	pop	%r14
	pop	%r13
	pop	%r12
	pop	%rbx
	pop	%rbp
	jmp	__switch_to
SYM_FUNC_END __switch_to_asm

/* Stack: ip cs flags sp ss. */
.macro idtentry_sysvec vector name
SYM_CODE_START asm_\name
	pushq	$-1
	PUSH_REGS
	mov	%rsp, %rdi
	call	\name
	jmp	restore_regs_and_return_to_kernel
SYM_CODE_END asm_\name
.endm

.macro idtentry name cfunc has_error_code
SYM_CODE_START \name
	.if \has_error_code == 0
	pushq	$-1
	.endif
	PUSH_REGS
	mov	%rsp, %rdi
	.if \has_error_code
	mov	15 * 8(%rsp), %rsi
	movq	$-1, 15 * 8(%rsp)
	.endif
	call	\cfunc
	jmp	restore_regs_and_return_to_kernel
SYM_CODE_END \name
.endm

SYM_CODE_START asm_common_interrupt
	pushq	$-1
	PUSH_REGS
	mov	%rsp, %rdi
	mov	$VEC_NET, %esi
	call	common_interrupt
	jmp	restore_regs_and_return_to_kernel
SYM_CODE_END asm_common_interrupt

idtentry_sysvec VEC_TIMER sysvec_apic_timer_interrupt
idtentry_sysvec VEC_RESCHEDULE sysvec_reschedule_ipi

idtentry asm_exc_divide_error exc_divide_error 0
idtentry asm_exc_debug exc_debug 0
idtentry asm_exc_double_fault exc_double_fault 1
idtentry asm_exc_nmi exc_nmi 1
idtentry asm_exc_int3 exc_int3 0
idtentry asm_exc_invalid_op exc_invalid_op 0
idtentry asm_exc_general_protection exc_general_protection 1
idtentry asm_exc_page_fault exc_page_fault 1

SYM_CODE_START restore_regs_and_return_to_kernel
	POP_REGS
	add	$8, %rsp
SYM_INNER_LABEL native_iret
	iretq
SYM_CODE_END restore_regs_and_return_to_kernel
