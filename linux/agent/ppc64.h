/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* The agent's instructions on ppc64el. */

#define NUMBER "0"
#define ARG_0 "3"
#define ARG_1 "4"
#define ARG_2 "5"
#define ARG_3 "6"
#define ARG_4 "7"
#define ARG_5 "8"
#define KEPT "14"
#define TRAP                  \
	"sc\n"                \
	"	bns+ 1f\n"       \
	"	neg 3, 3\n"      \
	"1:"
#define CLOBBERS "9", "10", "11", "12", "cr0", "ctr", "xer", "memory"
#define RESULT a0
#define SAYS ".long 0xe90"
#define BEGIN                          \
	"	cmpdi 3, 0\n"             \
	"	bne 1f\n"                 \
	"	mr 3, 14\n"               \
	"	stdu 3, -64(1)\n"         \
	"	bl begin\n"               \
	"	nop\n"                    \
	"1:"
#define PAUSE "b agent_pause\n" AT_PAUSE "nop"
#define RNDADDENTROPY 0x80085203

#include "frame.h"

asm(".globl _start\n"
    "_start: bcl 20, 31, 1f\n"
    "1:	mflr 2\n"
    "	addis 2, 2, (.TOC. - 1b)@ha\n"
    "	addi 2, 2, (.TOC. - 1b)@l\n"
    "	stdu 1, -64(1)\n"
    "	bl run\n"
    "	nop");
