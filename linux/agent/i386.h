/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* The agent's instructions on i386. */

#define NUMBER "eax"
#define ARG_0 "ebx"
#define ARG_1 "ecx"
#define ARG_2 "edx"
#define ARG_3 "esi"
#define KEPT "edi"
#define WHO NUMBER
#define TRAP "int $0x80"
#define CLOBBERS "memory"
#define RESULT number
#define BEGIN                   \
	"testl %%eax, %%eax\n"  \
	"jnz 1f\n"              \
	"xorl %%ebp, %%ebp\n"   \
	"pushl %%edi\n"         \
	"call begin\n"          \
	"1:"
#define PAUSE "jmp agent_pause\n" AT_PAUSE "pause"
#define RETURN_FROM_SIGNAL "movl $173, %eax\n int $0x80"
#define PORTS(use) CALL(__NR_iopl, (use) ? 3 : 0, 0, 0) /* allow in and out */

/* The sixth argument goes into the register that functions find their variables by. */
static long call(long nr, long a, long b, long c, long d, long e, long f)
{
	long ret;

	asm volatile("pushl %7\n"
		     "pushl %%ebp\n"
		     "movl 4(%%esp), %%ebp\n"
		     "int $0x80\n"
		     "popl %%ebp\n"
		     "addl $4, %%esp"
		     : "=a"(ret)
		     : "a"(nr), "b"(a), "c"(b), "d"(c), "S"(d), "D"(e), "m"(f)
		     : "memory");
	return ret;
}

/* Send so many bytes to the host before the region is mapped. */
static void send(const char *at, long size)
{
	asm volatile("rep outsb" : "+S"(at), "+c"(size) : "d"(0xe9) : "memory");
}

#include "frame.h"

asm(".globl _start\n"
    "_start: xorl %ebp, %ebp\n"
    "	andl $-16, %esp\n"
    "	call run");
