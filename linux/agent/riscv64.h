/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* The agent's instructions on riscv64. */

#define NUMBER "a7"
#define ARG_0 "a0"
#define ARG_1 "a1"
#define ARG_2 "a2"
#define ARG_3 "a3"
#define ARG_4 "a4"
#define ARG_5 "a5"
#define KEPT "a6"
#define TRAP "ecall"
#define CLOBBERS "memory"
#define RESULT a0
#define SAYS ".word 0x0000000b"
#define BEGIN             \
	"bnez a0, 1f\n"   \
	"li s0, 0\n"      \
	"mv a0, a6\n"     \
	"call begin\n"    \
	"1:"
#define PAUSE "j agent_pause\n.option push\n.option norvc\n" AT_PAUSE "nop\n.option pop"

#include "frame.h"

asm(".globl _start\n"
    "_start: li s0, 0\n"
    "	call run");
