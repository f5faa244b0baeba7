/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* The agent's instructions on arm64. */

#define NUMBER "x8"
#define ARG_0 "x0"
#define ARG_1 "x1"
#define ARG_2 "x2"
#define ARG_3 "x3"
#define ARG_4 "x4"
#define ARG_5 "x5"
#define KEPT "x9"
#define TRAP "svc #0"
#define CLOBBERS "memory"
#define RESULT a0
#define SAYS "svc #0xe9"
#define BEGIN                \
	"cbnz x0, 1f\n"      \
	"mov x29, xzr\n"     \
	"mov x0, x9\n"       \
	"bl begin\n"         \
	"1:"
#define PAUSE "b agent_pause\n" AT_PAUSE "nop"
#define RETURN_FROM_SIGNAL "mov x8, #139\n svc #0"

#include "frame.h"

asm(".globl _start\n"
    "_start: mov x29, xzr\n"
    "	bl run");
