/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a site's stub comes in, and the return trampoline.
 *
 * A stub is "push $SS; push $site; jmp kp_entry_*". At an ftrace site it is called, and
 * has no first push: the return address stands where struct pt_regs has ss. So the frame
 * begins with [ss or return address][site], and the words below make it a struct pt_regs.
 * On the way out the word of ss takes the address to go on at, and that of sp the flags:
 * the registers are popped, then popfq and ret leave nothing clobbered.
 */
#include "asm.h"

	.section .kp_fixups, "a"
	.globl	kp_fixups
kp_fixups:	/* this file is the first to be linked */

	.text

	/* Below ss and sp. The flags are saved before anything changes them. */
	.macro SAVE
	pushfq
	SAVE_REST
	.endm

	.macro SAVE_REST
	pushq	$KP_CS
	leaq	PT_ORIG_AX-PT_CS(%rsp), %rsp
	pushq	%rdi
	pushq	%rsi
	pushq	%rdx
	pushq	%rcx
	pushq	%rax
	pushq	%r8
	pushq	%r9
	pushq	%r10
	pushq	%r11
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

	/* A whole struct pt_regs at rsp; its struct kp_site to \site. */
	.macro FRAME kind site
	SAVE
	.if	\kind == KP_INT3
	cli	/* as behind an interrupt gate */
	.endif
	movq	PT_SP(%rsp), \site
	leaq	PT_SIZE(%rsp), %rax
	movq	%rax, PT_SP(%rsp)
	movq	$KP_SS, PT_SS(%rsp)
	.endm

	/* handler(site, regs) */
	.macro ENTRY name kind handler
	.globl	\name
	.type	\name, @function
\name:
	FRAME	\kind %rdi
	movq	%rsp, %rsi
	call	\handler
	jmp	kp_leave
	.size	\name, . - \name
	.endm

	.macro PREEMPT op context
	movl	$\context, %ecx
	\op	%ecx, %gs:0
	CONFIG	KPC_GS_PREEMPT
	.endm

	/*
	 * What enter() does where return probes stand beside other probes, in their short way
	 * of lite.S but for the registers: all there is are pre_handlers, none of an event, and
	 * nothing is stepped. For the sake of speed a stack trace made by a handler goes
	 * without the names of Linux's functions.
	 * rbx: struct kp_cpu, r12: struct kp_site, rbp: struct kp_handler.
	 */
	.macro ENTRY_KRETS name kind handler context
	.globl	\name\()_krets
	.type	\name\()_krets, @function
\name\()_krets:
	FRAME	\kind %r12
	THIS_CPU b
	cmpq	$0, CPU_CURRENT(%rbx)
	jne	9f
	incq	SITE_HITS(%r12)
	movq	%r12, CPU_CURRENT(%rbx)
	movq	$KP_HIT_ACTIVE, CPU_STATUS(%rbx)
	movq	$\kind, CPU_KIND(%rbx)
	movq	(%r12), %rax
	incq	%rax
	movq	%rax, PT_IP(%rsp)
	PREEMPT	addl \context
	movq	SITE_FIRST(%r12), %rbp
1:	testb	$HANDLER_DISABLED, HANDLER_FLAGS(%rbp)
	jnz	6f
	movq	HANDLER_FN(%rbp), %rax
	cmpq	$kp_kret_entry, %rax
	je	3f
2:	movq	%rbp, CPU_INSTANCE(%rbx)
	movq	HANDLER_ARG(%rbp), %rdi
	movq	%rsp, %rsi
	call	*%rax
	.if	\kind != KP_OPT
	testl	%eax, %eax
	jnz	8f
	.endif
6:	movq	(%rbp), %rbp
	testq	%rbp, %rbp
	jnz	1b
	jmp	4f
3:	movq	HANDLER_DATA(%rbp), %rdi
	movq	RETHOOK_FREE(%rdi), %rdx
	cmpq	$1, %rdx
	sbbq	%rcx, %rcx
	orq	RETHOOK_LONG(%rdi), %rcx
	jnz	2b
	movq	(%rdx), %rcx
	movq	%rcx, RETHOOK_FREE(%rdi)
	movq	%r12, RETHOOK_SITE(%rdi)
	movq	(%r12), %rcx
	movq	%rcx, NODE_FUNC(%rdx)
	movq	PT_SP(%rsp), %rcx
	movq	%rcx, NODE_FRAME(%rdx)
	movq	(%rcx), %rsi
	movq	%rsi, NODE_RET_ADDR(%rdx)
	movq	$kp_ret_trampoline, (%rcx)
	PUSH_NODE %rcx
	movq	(%rbp), %rbp
	testq	%rbp, %rbp
	jnz	1b
4:	movq	SITE_CONT(%r12), %rax
	.if	\kind == KP_OPT
	leaq	PT_SIZE(%rsp), %rdx
	movq	%rdx, PT_SP(%rsp)
	.endif
5:	PREEMPT	subl \context
	movq	$0, CPU_CURRENT(%rbx)
	movq	$0, CPU_STATUS(%rbx)
	jmp	kp_leave
8:	movq	PT_IP(%rsp), %rax
	jmp	5b
9:	movq	%r12, %rdi
	movq	%rsp, %rsi
	call	\handler
	jmp	kp_leave
	.size	\name\()_krets, . - \name\()_krets
	.endm

	/* Linux's name, which stack traces show */
	.globl	asm_exc_int3
	.type	asm_exc_int3, @function
asm_exc_int3:
	ENTRY kp_entry_int3 KP_INT3 exc_int3
	ENTRY_KRETS kp_entry_int3 KP_INT3 exc_int3 NMI_CONTEXT
	.size	asm_exc_int3, . - asm_exc_int3
	ENTRY kp_entry_ftrace KP_FTRACE kprobe_ftrace_handler
	ENTRY_KRETS kp_entry_ftrace KP_FTRACE kprobe_ftrace_handler 1
	ENTRY kp_entry_opt KP_OPT optimized_callback
	ENTRY_KRETS kp_entry_opt KP_OPT optimized_callback 1
	/* where a stack trace ends, as on Linux, which knows nothing of detour buffers' frames */
	.globl	kp_entry_opt_end
kp_entry_opt_end:

	/* The trap that brought us here has its ip in mail[2]: kp_break(), kp_fault(). */
	.irp	name, break, fault
	.globl	kp_\name\()_entry
	.type	kp_\name\()_entry, @function
kp_\name\()_entry:
	pushq	$KP_SS
	pushq	$0
	SAVE
	cli
	leaq	PT_SIZE(%rsp), %rax
	movq	%rax, PT_SP(%rsp)
	movq	%rsp, %rdi
	call	kp_\name
	jmp	kp_leave
	.size	kp_\name\()_entry, . - kp_\name\()_entry
	.endr

	/* After the trap at the end of a slot, with current_kprobe and mail[2] set. */
	.globl	kp_post_entry
	.type	kp_post_entry, @function
kp_post_entry:
	pushq	$KP_SS
	pushq	$0
	SAVE
	cli
	leaq	PT_SIZE(%rsp), %rax
	movq	%rax, PT_SP(%rsp)
	movq	%rsp, %rdi
	call	kp_post
	.size	kp_post_entry, . - kp_post_entry

	/* rax: where to go on; the rest as struct pt_regs says */
	.type	kp_leave, @function
kp_leave:
	leaq	PT_SIZE(%rsp), %rdx
	cmpq	%rdx, PT_SP(%rsp)
	jne	1f
	movq	PT_FLAGS(%rsp), %rdx
	movq	%rdx, PT_SP(%rsp)
	movq	%rax, PT_SS(%rsp)
	RESTORE
	leaq	PT_SP-PT_ORIG_AX(%rsp), %rsp
	popfq
	ret
1:	/* a handler moved the stack */
	movq	%rax, PT_IP(%rsp)
	movq	$KP_CS, PT_CS(%rsp)
	movq	$KP_SS, PT_SS(%rsp)
	RESTORE
	leaq	PT_IP-PT_ORIG_AX(%rsp), %rsp
	iretq
	.size	kp_leave, . - kp_leave

	/*
	 * Where a probed function returns to, the long way. The word that held its return
	 * address has the trampoline's own address, so that a stack trace made by a handler
	 * finds it behind struct pt_regs, and then takes the address to go on at. The words of
	 * struct pt_regs from flags on are on the stack, but for sp.
	 */
	.globl	kp_ret_long, arch_rethook_trampoline
	.type	kp_ret_long, @function
	.type	arch_rethook_trampoline, @function
kp_ret_long:
arch_rethook_trampoline:
	SAVE_REST
	leaq	PT_SIZE+8(%rsp), %rax
	movq	%rax, PT_SP(%rsp)
	movq	%rsp, %rdi
	call	arch_rethook_trampoline_callback
	movq	%rax, PT_SIZE(%rsp)
	movq	PT_FLAGS(%rsp), %rax
	movq	%rax, PT_SS(%rsp)
	RESTORE
	leaq	PT_SS-PT_ORIG_AX(%rsp), %rsp
	popfq
	ret
	.size	kp_ret_long, . - kp_ret_long
	.size	arch_rethook_trampoline, . - arch_rethook_trampoline

	.section .note.GNU-stack, "", @progbits
