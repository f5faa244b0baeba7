/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* The agent's instructions on x86-64. */

#define NUMBER "rax"
#define ARG_0 "rdi"
#define ARG_1 "rsi"
#define ARG_2 "rdx"
#define ARG_3 "r10"
#define ARG_4 "r8"
#define ARG_5 "r9"
#define KEPT "rbx"
#define TRAP "syscall"
#define CLOBBERS "rcx", "r11", "memory"
#define RESULT number
#define BEGIN                      \
	"test %%rax, %%rax\n"      \
	"jnz 1f\n"                 \
	"xor %%ebp, %%ebp\n"       \
	"mov %%rbx, %%rdi\n"       \
	"call begin\n"             \
	"1:"
#define PAUSE "jmp agent_pause\n" AT_PAUSE "pause"
#define RETURN_FROM_SIGNAL "mov $15, %eax\n syscall"
#define PORTS(use) CALL(__NR_iopl, (use) ? 3 : 0, 0, 0) /* allow in and out */

/* Send so many bytes to the host before the region is mapped. */
static void send(const char *at, long size)
{
	asm volatile("rep outsb" : "+S"(at), "+c"(size) : "d"(0xe9) : "memory");
}

#include "frame.h"

asm(".globl _start\n"
    "_start: xor %ebp, %ebp\n"
    "	and $-16, %rsp\n"
    "	call run");
