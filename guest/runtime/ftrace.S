/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where the entry nop of a traced function calls, and what trace points of the kernel call.
 */
	.text

	.macro FUNC name
	.globl	\name
	.type	\name, @function
\name:
	.endm

	.macro SAVE
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

	.macro RESTORE
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

/* Stack: behind the entry nop, the function's return address. Kernel: ftrace_caller */
FUNC kp_ftrace_caller
	.cfi_startproc
	pushfq
	SAVE
	.cfi_adjust_cfa_offset 10*8
	movq	10*8(%rsp), %rdi
	leaq	-5(%rdi), %rdi
	movq	11*8(%rsp), %rsi
	cld
	call	kp_function_trace
	RESTORE
	popfq
	.cfi_adjust_cfa_offset -10*8
	ret
	.cfi_endproc
	.size	kp_ftrace_caller, . - kp_ftrace_caller

/*
 * The same where a probe stands on the function too: called by a stub that then goes on
 * in the probe's. Stack: in that stub, behind the entry nop, the return address.
 */
FUNC kp_ftrace_both
FUNC ftrace_regs_call
	.cfi_startproc
	.cfi_def_cfa_offset 2*8	/* the stub is none of Linux's callers */
	pushfq
	SAVE
	.cfi_adjust_cfa_offset 10*8
	movq	11*8(%rsp), %rdi
	leaq	-5(%rdi), %rdi
	movq	12*8(%rsp), %rsi
	cld
	call	arch_ftrace_ops_list_func
	RESTORE
	popfq
	.cfi_adjust_cfa_offset -10*8
	ret
	.cfi_endproc
	.size	kp_ftrace_both, . - kp_ftrace_both
	.size	ftrace_regs_call, . - ftrace_regs_call

/* void kp_trace_event(struct kp_event *, u64 *record, u64 size) */
FUNC kp_trace_event
	leaq	8(%rsp), %rcx
	movq	(%rsp), %r8
	movq	%rbp, %r9
	jmp	kp_trace_commit
	.size	kp_trace_event, . - kp_trace_event

/* void kp_file_event(struct kp_file *, u64 *record, u64 size) */
FUNC kp_file_event
	leaq	8(%rsp), %rcx
	movq	(%rsp), %r8
	movq	%rbp, %r9
	jmp	kp_file_commit
	.size	kp_file_event, . - kp_file_event

	.section .note.GNU-stack, "", @progbits
