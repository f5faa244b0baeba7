/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The ways in: where the stub of a probed address jumps to.
 *
 * A stub is "push $SS; push $site; jmp kp_entry_*". At an ftrace site it is called, and
 * has no first push: the return address stands where struct pt_regs has ss. So the frame
 * begins with [ss or return address][site], and the words below make it a struct pt_regs.
 * On the way out the word of ss takes the address to go on at, and that of sp the flags:
 * the registers are popped, then popfq and ret leave nothing clobbered.
 */
#include "frame.h"

	.section .kp_fixups, "a"
	.globl	kp_fixups
kp_fixups:	/* this file is the first to be linked */

	.section .kp_lite_fixups, "a"
	.globl	kp_lite_fixups
kp_lite_fixups:
	.long	LITE_BASE

	.text

	/* Define an entry that calls handler(site, regs). */
	.macro ENTRY name kind handler
FUNC \name
	FRAME	\kind %rdi
	movq	%rsp, %rsi
	call	\handler
	jmp	kp_leave
	.size	\name, . - \name
	.endm

	/* Handle what a block of krets.S cannot. r12: struct kp_site, rbx: struct kp_cpu. */
	.macro KRETS name handler context
	/* The block was entered while another site is handled. */
	.globl	kp_krets_\name\()_long, kp_krets_\name\()_changed
kp_krets_\name\()_long:
	movq	%r12, %rdi
	movq	%rsp, %rsi
	call	\handler
	jmp	kp_leave
	/* A handler says that regs->ip is where to go on. */
kp_krets_\name\()_changed:
	movq	PT_IP(%rsp), %rax
	LEAVE_SITE \context
	jmp	kp_leave
	.endm

	/* The name that stack traces show on Linux. */
FUNC asm_exc_int3
	ENTRY kp_entry_int3 KP_INT3 exc_int3
	KRETS int3 exc_int3 NMI_CONTEXT
	.size	asm_exc_int3, . - asm_exc_int3
	ENTRY kp_entry_ftrace KP_FTRACE kprobe_ftrace_handler
	KRETS ftrace kprobe_ftrace_handler 1
	ENTRY kp_entry_opt KP_OPT optimized_callback
	KRETS opt optimized_callback 1
	/* Stack traces end here as on Linux, which knows no frames of detour buffers. */
	.globl	kp_entry_opt_end
kp_entry_opt_end:

	/*
	 * Enter after a trap whose ip is in mail[2]: kp_break(), kp_fault(), and kp_post(), behind
	 * the trap at the end of a slot, with current_kprobe set.
	 */
	.irp	name, break, fault, post
FUNC kp_\name\()_entry
	pushq	$KP_SS
	pushq	$0
	SAVE_REGS
	cli
	leaq	PT_SIZE(%rsp), %rax
	movq	%rax, PT_SP(%rsp)
	movq	%rsp, %rdi
	call	kp_\name
	.ifnc	\name, post	/* the last one goes straight on */
	jmp	kp_leave
	.endif
	.size	kp_\name\()_entry, . - kp_\name\()_entry
	.endr

	/* Leave the runtime: rax is where to go on, struct pt_regs says the rest. */
FUNC kp_leave
	leaq	PT_SIZE(%rsp), %rdx
	cmpq	%rdx, PT_SP(%rsp)
	jne	1f
	movq	PT_FLAGS(%rsp), %rdx
	movq	%rdx, PT_SP(%rsp)
	movq	%rax, PT_SS(%rsp)
	RESTORE_REGS
	leaq	PT_SP-PT_ORIG_AX(%rsp), %rsp
	popfq
	ret
1:	/* a handler moved the stack */
	movq	%rax, PT_IP(%rsp)
	movq	$KP_CS, PT_CS(%rsp)
	movq	$KP_SS, PT_SS(%rsp)
	RESTORE_REGS
	leaq	PT_IP-PT_ORIG_AX(%rsp), %rsp
	iretq
	.size	kp_leave, . - kp_leave

	.section .note.GNU-stack, "", @progbits
