/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The start of a CPU: long mode, paging and NX on, interrupts off. See guest/README.md.
 */
#include <asm/linkage.h>
#include <kpfs/abi.h>

	.section .head.text, "ax"

/* RDI: struct kpfs_boot_params * (CPU 0). */
SYM_CODE_START startup_64
	mov	%rdi, %rbx
	xor	%esi, %esi
	movabs	$KPFS_STACK_BASE + KPFS_STACK_STRIDE, %rsp
	call	cpu_load_segments
	mov	%rbx, %rdi
	call	start_kernel
	ud2
SYM_CODE_END startup_64

/* RDI: the CPU's number, 1 and up. */
SYM_CODE_START secondary_startup_64
	mov	%rdi, %rbx
	mov	%edi, %esi
	imul	$KPFS_STACK_STRIDE, %rdi, %rax
	movabs	$KPFS_STACK_BASE + KPFS_STACK_STRIDE, %rsp
	add	%rax, %rsp
	call	cpu_load_segments
	mov	%rbx, %rdi
	call	start_secondary
	ud2
SYM_CODE_END secondary_startup_64

/* GDT, segment registers, and %gs for CPU %esi. */
SYM_CODE_START cpu_load_segments
	lgdt	early_gdt_descr(%rip)
	mov	$KPFS_DS, %eax
	mov	%eax, %ds
	mov	%eax, %es
	mov	%eax, %ss
	xor	%eax, %eax
	mov	%eax, %fs
	mov	%eax, %gs
	pop	%rdi
	pushq	$KPFS_CS
	pushq	%rdi
	imul	$__per_cpu_size, %rsi, %rax
	lea	__per_cpu_start(%rip), %rdx
	add	%rdx, %rax
	mov	%rax, %rdx
	shr	$32, %rdx
	mov	$0xc0000101, %ecx
	wrmsr
	pushq	$2
	popfq
	cld
	lretq
SYM_CODE_END cpu_load_segments

/* The function that -pg calls where the nop is not used. */
SYM_FUNC_START __fentry__
	ret
SYM_FUNC_END __fentry__

	.section .rodata, "a"
	.balign 16
gdt_page:
	.quad	0
	.quad	0
	.quad	0x00af9b000000ffff	/* 0x10 kernel code */
	.quad	0x00cf93000000ffff	/* 0x18 kernel data */
	.quad	0
	.quad	0x00cff3000000ffff	/* 0x28 user data */
	.quad	0x00affb000000ffff	/* 0x30 user code */
	.set	.Lgdt_end, .
early_gdt_descr:
	.word	.Lgdt_end - gdt_page - 1
	.quad	gdt_page
