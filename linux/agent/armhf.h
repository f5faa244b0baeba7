/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* The agent's instructions on armhf. */

#define NUMBER "r7"
#define ARG_0 "r0"
#define ARG_1 "r1"
#define ARG_2 "r2"
#define ARG_3 "r3"
#define ARG_4 "r4"
#define ARG_5 "r5"
#define KEPT "r6"
#define TRAP "svc #0"
#define CLOBBERS "cc", "memory"
#define RESULT a0
#define SAYS "svc #0xe9"
#define BEGIN               \
	"	cmp r0, #0\n"  \
	"	bne 1f\n"      \
	"	mov r0, r6\n"  \
	"	bl begin\n"    \
	"1:"
#define PAUSE "b agent_pause\n" AT_PAUSE "nop"
#define RETURN_FROM_SIGNAL "mov r7, #173\n svc #0"

#include "frame.h"

asm(".globl _start\n"
    "_start: bic sp, sp, #7\n"
    "	bl run");
