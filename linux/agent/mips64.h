/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * The agent's instructions on mips64el (n64), whose numbers of everything are its own. Results are
 * those of other architectures: the host knows no others.
 */
#include "errors_mips.h"

#define NUMBER "$2"
#define ARG_0 "$4"
#define ARG_1 "$5"
#define ARG_2 "$6"
#define ARG_3 "$7"
#define ARG_4 "$8"
#define ARG_5 "$9"
#define KEPT "$16"
#define TRAP "syscall"
#define CLOBBERS                                                                               \
	"$1", "$3", "$10", "$11", "$12", "$13", "$14", "$15", "$24", "$25", "hi", "lo", \
		"memory"
#define RESULT (a3 ? -known_error(number) : number)
#define SAYS ".word 0x7c00003f"
#define BEGIN                          \
	".set noreorder\n"            \
	"	bnez $7, 1f\n"        \
	"	 nop\n"               \
	"	bnez $2, 1f\n"        \
	"	 nop\n"               \
	"	move $4, $16\n"       \
	"	jal begin\n"          \
	"	 nop\n"               \
	"1:\n"                        \
	"	.set reorder"
#define PAUSE                                                                                    \
	".set noreorder\n	b agent_pause\n	 nop\n" AT_PAUSE "nop\n	.set reorder"

#define O_SYNC 0x4010
#define MAP_ANONYMOUS 0x800
#define SIGCHLD 18
#define SIGUSR1 16
#define SIGXFSZ 31
#define NR_SIGNALS 128
#define RNDADDENTROPY 0x80085203

#include "frame.h"

asm(".globl _start\n"
    ".set noreorder\n"
    "_start: jal run\n"
    "	 nop\n"
    ".set reorder");
