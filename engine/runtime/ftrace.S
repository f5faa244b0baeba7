/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The code that traced functions call at their entry nop, and that the kernel's trace points
 * call.
 */
#include "asm.h"

	.text

	/* Call function(ip, parent_ip), whose two words are \at bytes up the stack. */
	.macro TRACE function at=0
	pushfq
	PUSH_SCRATCH
	.cfi_adjust_cfa_offset 10*8
	movq	10*8+\at(%rsp), %rdi
	leaq	-5(%rdi), %rdi
	movq	11*8+\at(%rsp), %rsi
	cld
	call	\function
	POP_SCRATCH
	popfq
	.cfi_adjust_cfa_offset -10*8
	ret
	.endm

/* Trace a function. Stack: behind the entry nop, its return address. Kernel: ftrace_caller */
FUNC kp_ftrace_caller
	.cfi_startproc
	TRACE	kp_function_trace
	.cfi_endproc
	.size	kp_ftrace_caller, . - kp_ftrace_caller

/*
 * Trace a function on which a probe stands, too: called by a stub that then goes on in the
 * probe's. Stack: in that stub, behind the entry nop, the return address.
 */
FUNC kp_ftrace_both
FUNC ftrace_regs_call
	.cfi_startproc
	.cfi_def_cfa_offset 2*8	/* the stub is none of Linux's callers */
	TRACE	arch_ftrace_ops_list_func 8
	.cfi_endproc
	.size	kp_ftrace_both, . - kp_ftrace_both
	.size	ftrace_regs_call, . - ftrace_regs_call

	/* Take a record from the kernel, with the stack, the ip and the bp of its caller. */
	.macro COMMIT name function
FUNC \name
	leaq	8(%rsp), %rcx
	movq	(%rsp), %r8
	movq	%rbp, %r9
	jmp	\function
	.size	\name, . - \name
	.endm

/* void kp_trace_event(struct kp_event *, u64 *record, u64 size) */
	COMMIT	kp_trace_event kp_trace_commit
/* void kp_file_event(struct kp_file *, u64 *record, u64 size) */
	COMMIT	kp_file_event kp_file_commit

	.section .note.GNU-stack, "", @progbits
