/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The common hits, without a struct pt_regs: a site whose one handler is that of an event
 * with nothing to fetch or filter, or that of a return probe. Nothing here is run where it
 * stands but the return trampoline: engine/arch/x86/lite.py makes a copy for each site,
 * with what it knows of the site in the instructions (FIELD), where else its stub would
 * be. What is not simple takes the long way by what the stub does (entry.S). No handler of
 * others runs and nothing faults, so current_kprobe and the preempt count stay as they are.
 *
 * In an emulator arithmetic costs nothing, each access to memory or branch as much as ten
 * instructions, pushfq five times and popfq ten times that. So what decides against the
 * short way is or-ed together and tested once; each register that is used is saved, which
 * takes two accesses; and flags come back by sahf, with OF made before it.
 */
#include "frame.h"

	.text

	.macro SAVE
	pushq	%rax
	pushfq
	PUSH_REGS rcx, rdx, rsi
	.endm
#define SAVED 40
#define SAVED_FLAGS 24

	/*
	 * Restore what SAVE saved, then do what the macro named tail does. It is seldom that OF is
	 * set.
	 */
	.macro RESTORE tail:vararg
	POP_REGS rsi, rdx, rcx, rax
	xchgb	%al, %ah
	testb	$8, %al
	jnz	7f
	xorb	%al, %al
	sahf
	popq	%rax
	\tail
7:	movb	$0x7f, %al
	incb	%al
	sahf
	popq	%rax
	\tail
	.endm

	.macro RESTORE_ALL_FLAGS
	POP_REGS rsi, rdx, rcx
	movq	8(%rsp), %rax
	popfq
	leaq	8(%rsp), %rsp
	.endm

	/*
	 * Add to rax, and to ZF, what is against writing a record of size bytes. In: rcx
	 * struct kp_cpu. Out: rcx place, rdx struct kp_ring; rsi is lost. The hit is counted
	 * in nhit, whose fix-up is what.
	 */
	.macro CHECK size nhit what=none
	movl	%gs:0, %esi
	CONFIG	KPC_GS_RESCHED
	orq	%rsi, %rax
	movl	%gs:0, %esi
	CONFIG	KPC_GS_PREEMPT
	andl	$0xfffff8, %esi	/* interrupts, or more than fits into the head */
	orq	%rsi, %rax
	movq	CPU_RING(%rcx), %rdx
	movq	\nhit, %rcx
	.ifnc	\what, none
	FIELD	\what
	.endif
	leaq	1(%rcx), %rsi
	movq	%rsi, \nhit
	.ifnc	\what, none
	FIELD	\what
	.endif
	notq	%rcx		/* EVENT_SIMPLE */
	shrq	$63, %rcx
	orq	%rcx, %rax
	movq	RING_PLACE(%rdx), %rcx
	/* on a page: behind other records, and far enough from its end */
	movl	%ecx, %esi
	andl	$KP_PAGE_SIZE - 1, %esi
	subl	$KP_PAGE_SIZE - KP_PAGE_DATA + 1, %esi
	subq	$KP_PAGE_DATA - (\size + 4), %rsi
	notq	%rsi
	shrq	$63, %rsi
	orq	%rsi, %rax
	.endm

	/*
	 * Take the place: rcx points to it, its head but the record's is written; rax, rdx
	 * and rsi are lost. To \long, if time has gone on too far.
	 */
	.macro TAKE size long
	movabsq	LITE_BASE, %rax
	CONFIG	KPC_CLOCK 8
	addq	$LITE_BASE, %rax
	CONFIG	KPC_CLOCK_STEP
	movq	%rax, %rsi
	subq	RING_LAST_TS(%rdx), %rsi
	cmpq	$1 << 27, %rsi
	jae	\long
	movq	%rax, RING_LAST_TS(%rdx)
	movabsq	%rax, LITE_BASE
	CONFIG	KPC_CLOCK 8
	shll	$5, %esi
	orl	$\size / 4, %esi
	movabsq	$(1 << 32) + \size + 4, %rax
	addq	%rcx, %rax
	movq	%rax, RING_PLACE(%rdx)
	movslq	%ecx, %rcx
	movl	%esi, (%rcx)
	.endm

	/*
	 * Write the record's head, and the name of the task, whose pointer goes to rsi. \type:
	 * where the event's is; \flags: where RFLAGS are. rax and rdx are lost. See kp_context().
	 */
	.macro HEAD kind flags type what=none
	movl	%gs:0, %eax
	CONFIG	KPC_GS_PREEMPT
	.if	\kind == KP_INT3
	leal	0x490000 - 1(%rax), %edx	/* NMI, hard interrupt, interrupts off */
	.else
	movl	\flags, %edx
	notl	%edx
	andl	$0x200, %edx
	shll	$16 - 9, %edx
	orl	%eax, %edx
	.endif
	movl	%edx, %eax
	shll	$24, %eax
	andl	$0xff0000, %edx
	orl	%edx, %eax
	movzwl	\type, %edx
	.ifnc	\what, none
	FIELD	\what
	.endif
	orl	%edx, %eax
	movq	%gs:0, %rsi
	CONFIG	KPC_GS_CURRENT
	movl	LITE_BASE(%rsi), %edx
	CONFIG	KPC_TASK_PID
	shlq	$32, %rdx
	orq	%rdx, %rax
	movq	%rax, 4(%rcx)
	shrq	$32, %rax
	movl	%eax, %edx
	andl	$LITE_BASE, %edx
	CONFIG	KPC_CMDLINE_MASK
	leaq	(%rdx,%rdx,2), %rdx
	leaq	LITE_BASE(,%rdx,8), %rdx
	CONFIG	KPC_CMDLINES
	movq	%rax, (%rdx)
	leaq	LITE_BASE(%rsi), %rsi
	CONFIG	KPC_TASK_COMM
	movq	(%rsi), %rax
	movq	%rax, 8(%rdx)
	movq	8(%rsi), %rax
	movq	%rax, 16(%rdx)
	.endm

	/* Go on to what follows the handlers. step: the slot ends in a trap. */
	.macro GO_ON kind step
	.if	\step
	THIS_CPU
	movq	$LITE_BASE, %rax
	FIELD	LITE_SITE
	movq	%rax, (%rcx)
	movq	$KP_HIT_SS, CPU_STATUS(%rcx)
	.endif
	.if	\kind == KP_FTRACE
	RESTORE	POP_AND_JUMP
	.else
	RESTORE	JUMP
	.endif
	.endm

	.macro POP_AND_JUMP
	leaq	8(%rsp), %rsp
	JUMP
	.endm

	/* Go the long way, as the stub does. */
	.macro LONG_WAY name kind
	RESTORE_ALL_FLAGS
	.if	\kind != KP_FTRACE
	pushq	$KP_SS
	.endif
	pushq	$LITE_BASE
	FIELD	LITE_SITE
	jmp	kp_entry_\name
	FIELD	LITE_REL
	.endm

	/* Handle an event whose struct kp_event is the site's. */
	.macro EVENT name entry kind step=0
	.globl	kp_lite_\name\()_event, kp_lite_\name\()_event_end
kp_lite_\name\()_event:
	SAVE
	THIS_CPU
	movq	CPU_CURRENT_KPROBE(%rcx), %rax
	CHECK	16, LITE_BASE+EVENT_NHIT, LITE_DATA
	jnz	8f
	TAKE	16 8f
	movq	$LITE_BASE, 12(%rcx)
	FIELD	LITE_ADDR
	HEAD	\kind, SAVED_FLAGS(%rsp), LITE_BASE+EVENT_TYPE, LITE_DATA
	incq	LITE_BASE+SITE_HITS
	FIELD	LITE_SITE
	GO_ON	\kind \step
8:	decq	LITE_BASE+EVENT_NHIT
	FIELD	LITE_DATA
	LONG_WAY \entry \kind
kp_lite_\name\()_event_end:
	.endm

	/*
	 * Handle a return probe: push its newest free node to the task's list. The nodes know func
	 * already, and struct kp_rethook knows site. frame: where the return address is
	 */
	.macro KRET name entry kind step=0 frame=SAVED
	.globl	kp_lite_\name\()_kret, kp_lite_\name\()_kret_end
kp_lite_\name\()_kret:
	SAVE
	THIS_CPU
	movq	CPU_CURRENT_KPROBE(%rcx), %rax
	orq	LITE_BASE+RETHOOK_LONG_WAY, %rax
	FIELD	LITE_DATA
	movq	LITE_BASE+RETHOOK_FREE, %rdx
	FIELD	LITE_DATA
	cmpq	$1, %rdx
	sbbq	%rcx, %rcx
	orq	%rcx, %rax
	jnz	8f
	movq	(%rdx), %rax
	movq	%rax, LITE_BASE+RETHOOK_FREE
	FIELD	LITE_DATA
	incq	LITE_BASE+SITE_HITS
	FIELD	LITE_SITE
	leaq	\frame(%rsp), %rax
	movq	%rax, NODE_FRAME(%rdx)
	movq	\frame(%rsp), %rax
	movq	%rax, NODE_RET_ADDR(%rdx)
	movq	$arch_rethook_trampoline, \frame(%rsp)
	PUSH_NODE %rax
	GO_ON	\kind \step
8:	LONG_WAY \entry \kind
kp_lite_\name\()_kret_end:
	.endm

	/*
	 * Enter from a jump whose handlers are all Python: they are called where it is, with the
	 * registers as they are. leaq and jrcxz leave the flags alone.
	 */
	.globl	kp_lite_opt_python, kp_lite_opt_python_trap, kp_lite_opt_python_end
kp_lite_opt_python:
	pushq	%rcx
	movl	%gs:0, %ecx
	CONFIG	KPC_GS_CPU
	leaq	(,%rcx,8), %rcx
	leaq	(,%rcx,8), %rcx
	leaq	(,%rcx,4), %rcx
	movq	LITE_BASE(%rcx), %rcx	/* current_kprobe */
	CONFIG	KPC_CPUS
	jrcxz	1f
	popq	%rcx
	pushq	$KP_SS
	pushq	$LITE_BASE
	FIELD	LITE_SITE
	jmp	kp_entry_opt
	FIELD	LITE_REL
1:	movq	LITE_BASE+SITE_HITS, %rcx
	FIELD	LITE_SITE
	leaq	1(%rcx), %rcx
	movq	%rcx, LITE_BASE+SITE_HITS
	FIELD	LITE_SITE
	popq	%rcx
	int	$TRAP_ENTRY
kp_lite_opt_python_trap:
	JUMP
kp_lite_opt_python_end:

	EVENT	int3 int3 KP_INT3
	EVENT	step int3 KP_INT3 1
	EVENT	ftrace ftrace KP_FTRACE
	EVENT	opt opt KP_OPT
	KRET	int3 int3 KP_INT3
	KRET	step int3 KP_INT3 1
	KRET	ftrace ftrace KP_FTRACE 0 SAVED+8
	KRET	opt opt KP_OPT

	/*
	 * Return from a probed function: the word that held its return address takes it again.
	 * All other cases take the long way.
	 */
FUNC arch_rethook_trampoline
	leaq	-8(%rsp), %rsp
	SAVE
	pushq	%rdi
	pushq	%r8
	movq	%gs:0, %rsi
	CONFIG	KPC_GS_CURRENT
	movq	LITE_BASE(%rsi), %rdi
	CONFIG	KPC_TASK_RETHOOKS
	testq	%rdi, %rdi
	jz	9f
	movq	NODE_RETHOOK(%rdi), %r8
	movq	RETHOOK_EVENT(%r8), %r8
	cmpq	$kp_no_event, %r8
	je	9f
	leaq	SAVED+16(%rsp), %rax
	xorq	NODE_FRAME(%rdi), %rax
	xorl	%ecx, %ecx
	cmpq	$arch_rethook_trampoline, NODE_RET_ADDR(%rdi)
	sete	%cl
	orq	%rcx, %rax
	THIS_CPU
	CHECK	24, EVENT_NHIT(%r8)
	jnz	8f
	TAKE	24 8f
	movq	NODE_FUNC(%rdi), %rax
	movq	%rax, 12(%rcx)
	movq	NODE_RET_ADDR(%rdi), %rax
	movq	%rax, 20(%rcx)
	movq	%rax, SAVED+16(%rsp)
	HEAD	KP_FTRACE, SAVED_FLAGS+16(%rsp), EVENT_TYPE(%r8)
	movq	%gs:0, %rsi
	CONFIG	KPC_GS_CURRENT
	movq	(%rdi), %rax
	movq	%rax, LITE_BASE(%rsi)
	CONFIG	KPC_TASK_RETHOOKS
	movq	NODE_RETHOOK(%rdi), %rdx
	movq	RETHOOK_FREE(%rdx), %rax
	movq	%rax, (%rdi)
	movq	%rdi, RETHOOK_FREE(%rdx)
	popq	%r8
	popq	%rdi
	RESTORE	ret
8:	decq	EVENT_NHIT(%r8)
	/* on with the flags in their place in struct pt_regs, and those registers restored */
9:	popq	%r8
	POP_REGS rdi, rsi, rdx, rcx
	pushq	(%rsp)
	movq	16(%rsp), %rax
	movq	$KP_SS, 16(%rsp)
	movq	$arch_rethook_trampoline, 24(%rsp)
	/*
	 * The word that held the return address has the trampoline's own address, so that a stack
	 * trace made by a handler finds it behind struct pt_regs, and then takes the address to go
	 * on at. The words of struct pt_regs from flags on are on the stack, but for sp.
	 */
	SAVE_REST
	leaq	PT_SIZE+8(%rsp), %rax
	movq	%rax, PT_SP(%rsp)
	movq	%rsp, %rdi
	call	arch_rethook_trampoline_callback
	movq	%rax, PT_SIZE(%rsp)
	movq	PT_FLAGS(%rsp), %rax
	movq	%rax, PT_SS(%rsp)
	RESTORE_REGS
	leaq	PT_SS-PT_ORIG_AX(%rsp), %rsp
	popfq
	ret
	.size	arch_rethook_trampoline, . - arch_rethook_trampoline

	/* The event of return probes that no event handles: never simple. */
	.bss
	.globl	kp_no_event
	.balign	64
kp_no_event:
	.skip	64

	.section .note.GNU-stack, "", @progbits
