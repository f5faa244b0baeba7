/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Memory primitives, and the copies whose faults the exception table catches. */
#include <asm/asm.h>
#include <asm/linkage.h>

	.text

/* An emulator does one step of rep after the other. */
.macro FILL_64
	.irp	at, 0, 8, 16, 24, 32, 40, 48, 56
	mov	%rax, \at(%rdi)
	.endr
	add	$64, %rdi
.endm

/* void *memcpy(dst, src, n) */
SYM_FUNC_START memcpy
	mov	%rdi, %rax
	mov	%rdx, %rcx
	shr	$3, %rcx
	rep movsq
	mov	%edx, %ecx
	and	$7, %ecx
	rep movsb
	ret
SYM_FUNC_END memcpy

SYM_FUNC_START memmove
	mov	%rdi, %rax
	cmp	%rsi, %rdi
	jbe	memcpy
	lea	(%rsi,%rdx), %rcx
	cmp	%rcx, %rdi
	jae	memcpy
	lea	-1(%rdi,%rdx), %rdi
	lea	-1(%rsi,%rdx), %rsi
	mov	%rdx, %rcx
	std
	rep movsb
	cld
	ret
SYM_FUNC_END memmove

SYM_FUNC_START memset
	mov	%rdi, %r9
	movzbl	%sil, %eax
	mov	$0x0101010101010101, %rcx
	imul	%rcx, %rax
	mov	%rdx, %rcx
	shr	$6, %rcx
	jz	2f
1:	FILL_64
	dec	%rcx
	jnz	1b
2:	mov	%edx, %ecx
	shr	$3, %ecx
	and	$7, %ecx
	rep stosq
	mov	%edx, %ecx
	and	$7, %ecx
	rep stosb
	mov	%r9, %rax
	ret
SYM_FUNC_END memset

SYM_FUNC_START clear_page_erms
	mov	$4096 / 64, %ecx
	xor	%eax, %eax
1:	FILL_64
	dec	%ecx
	jnz	1b
	ret
SYM_FUNC_END clear_page_erms

/* unsigned long copy_user_generic(to, from, n): the number of bytes not copied. */
SYM_FUNC_START copy_user_generic
	mov	%edx, %ecx
	shr	$3, %ecx
	and	$7, %edx
1:	rep movsq
	mov	%edx, %ecx
2:	rep movsb
	xor	%eax, %eax
	ret
3:	lea	(%rdx,%rcx,8), %rcx
	jmp	2b
4:	mov	%ecx, %eax
	ret
	_ASM_EXTABLE_UA(1b, 3b)
	_ASM_EXTABLE_UA(2b, 4b)
SYM_FUNC_END copy_user_generic

/* unsigned long __clear_user(to, n): the number of bytes not cleared. */
SYM_FUNC_START __clear_user
	mov	%rsi, %rcx
	xor	%eax, %eax
1:	rep stosb
2:	mov	%rcx, %rax
	ret
	_ASM_EXTABLE_UA(1b, 2b)
SYM_FUNC_END __clear_user
