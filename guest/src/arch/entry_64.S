/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Ways into the kernel. There is no ring 3: a task enters a system call by a plain call
 * of entry_SYSCALL_64, and Python pushes the frame of an interrupt or exception on the
 * current stack, as a CPU would without a change of privilege.
 */
#include <asm/linkage.h>
#include <kpfs/abi.h>

.macro PUSH_ALL regs:vararg
	.irp	reg, \regs
	push	%\reg
	.endr
.endm

.macro POP_ALL regs:vararg
	.irp	reg, \regs
	pop	%\reg
	.endr
.endm

.macro PUSH_PT_REGS
	cld
	PUSH_ALL rdi, rsi, rdx, rcx, rax, r8, r9, r10, r11, rbx, rbp, r12, r13, r14, r15
	mov	%rsp, %rdi
.endm

	.section .entry.text, "ax"

/*
 * long entry_SYSCALL_64(struct kpfs_request *req): build pt_regs as of user mode, run
 * the system call, result in RAX. The request is read before the call only.
 */
SYM_CODE_START entry_SYSCALL_64
	PUSH_ALL rbx, rbp, r12, r13, r14, r15
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
	.rept	6				/* bx, bp, r12 to r15 */
	pushq	$0
	.endr
SYM_INNER_LABEL entry_SYSCALL_64_after_hwframe
	mov	%rsp, %rdi
	movslq	8(%rbx), %rsi
	call	do_syscall_64
	mov	10 * 8(%rsp), %rax
.Lsyscall_insn:
	mov	%r12, %rsp
	POP_ALL r15, r14, r13, r12, rbp, rbx
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
	PUSH_ALL rbp, rbx, r12, r13, r14, r15
	mov	task_thread_sp(%rip), %eax
	mov	%rsp, (%rdi,%rax)
	mov	(%rsi,%rax), %rsp
	POP_ALL r15, r14, r13, r12, rbx, rbp
	jmp	__switch_to
SYM_FUNC_END __switch_to_asm

/* Stack: an error code if the CPU pushes one, ip cs flags sp ss. */
.macro idtentry cfunc has_error_code=0
SYM_CODE_START asm_\cfunc
	.if \has_error_code == 0
	pushq	$-1
	.endif
	PUSH_PT_REGS
	.if \has_error_code
	mov	15 * 8(%rsp), %rsi
	movq	$-1, 15 * 8(%rsp)
	.endif
	call	\cfunc
	jmp	restore_regs_and_return_to_kernel
SYM_CODE_END asm_\cfunc
.endm

SYM_CODE_START asm_common_interrupt
	pushq	$-1
	PUSH_PT_REGS
	mov	$VEC_NET, %esi
	call	common_interrupt
	jmp	restore_regs_and_return_to_kernel
SYM_CODE_END asm_common_interrupt

idtentry sysvec_apic_timer_interrupt
idtentry sysvec_reschedule_ipi
idtentry exc_divide_error
idtentry exc_debug
idtentry exc_double_fault 1
idtentry exc_nmi 1
idtentry exc_int3
idtentry exc_invalid_op
idtentry exc_general_protection 1
idtentry exc_page_fault 1

SYM_CODE_START restore_regs_and_return_to_kernel
	POP_ALL r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi
	add	$8, %rsp
SYM_INNER_LABEL native_iret
	iretq
SYM_CODE_END restore_regs_and_return_to_kernel
