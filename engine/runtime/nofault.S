/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reading memory that may not be there. The engine's fault handler finds the faulting
 * instruction in kp_extable and goes on at the address beside it.
 */
#include "asm.h"

	.macro EX from to
	.pushsection .kp_extable, "a"
	.long	\from - ., \to - .
	.popsection
	.endm

	.section .kp_extable, "a"
	.globl	kp_extable
	.balign	4
kp_extable:

	.text
/* long kp_read(void *dst, u64 src, u32 size): read 1, 2, 4 or 8 bytes; return 1 after a fault */
FUNC kp_read
	xorl	%eax, %eax
	cmpl	$4, %edx
	ja	8f
	je	4f
	cmpl	$2, %edx
	je	2f
1:	movzbl	(%rsi), %ecx
	movb	%cl, (%rdi)
	ret
2:	movzwl	(%rsi), %ecx
	movw	%cx, (%rdi)
	ret
4:	movl	(%rsi), %ecx
	movl	%ecx, (%rdi)
	ret
8:	movq	(%rsi), %rcx
	movq	%rcx, (%rdi)
	ret
9:	movl	$1, %eax
	ret
	EX 1b 9b
	EX 2b 9b
	EX 4b 9b
	EX 8b 9b

/*
 * long kp_strnlen(u64 src, u64 max): return the bytes with the NUL, max if there is none, -1:
 * fault
 */
FUNC kp_strnlen
	xorl	%eax, %eax
1:	movzbl	(%rdi,%rax), %edx
	incq	%rax
	testl	%edx, %edx
	je	2f
	cmpq	%rsi, %rax
	jb	1b
2:	ret
9:	movq	$-1, %rax
	ret
	EX 1b 9b

/*
 * long kp_strncpy(void *dst, u64 src, u64 max): copy a string, with a NUL over the last byte if it
 * has none. Return the bytes with the NUL; -1: fault, dst is empty
 */
FUNC kp_strncpy
	xorl	%eax, %eax
1:	movzbl	(%rsi,%rax), %ecx
	movb	%cl, (%rdi,%rax)
	incq	%rax
	testl	%ecx, %ecx
	je	2f
	cmpq	%rdx, %rax
	jb	1b
	movb	$0, -1(%rdi,%rax)
2:	ret
9:	movb	$0, (%rdi)
	movq	$-1, %rax
	ret
	EX 1b 9b

	.section .kp_extable, "a"
	.long	0, 0
	.section .note.GNU-stack, "", @progbits
