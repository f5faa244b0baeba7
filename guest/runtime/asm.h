/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Macros of the short ways: fields that the engine fills in, and this CPU's state. */
#include "runtime.h"

	/* The bytes before are a field of struct kp_config. */
	.macro CONFIG field size=4
771:	.pushsection .kp_fixups, "a"
	.long	771b - \size - ., 0x6b700000 + \field
	.popsection
	.endm

	/* rcx: struct kp_cpu */
	.macro THIS_CPU
	movl	%gs:0, %ecx
	CONFIG	KPC_GS_CPU
	shlq	$8, %rcx
	addq	$LITE_BASE, %rcx
	CONFIG	KPC_CPUS
	.endm
