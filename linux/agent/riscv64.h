/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* The agent's instructions and system calls on riscv64. */
static long call(long nr, long a, long b, long c, long d, long e, long f)
{
	register long a7 asm("a7") = nr, a0 asm("a0") = a, a1 asm("a1") = b, a2 asm("a2") = c;
	register long a3 asm("a3") = d, a4 asm("a4") = e, a5 asm("a5") = f;

	asm volatile("ecall"
		     : "+r"(a0)
		     : "r"(a7), "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5)
		     : "memory");
	return a0;
}

/* Send so many bytes to the host before the region is mapped (AGENT_SAYS). */
static void send(const char *at, long size)
{
	register long a0 asm("a0") = (long)at, a1 asm("a1") = size;

	asm volatile(".word 0x0000000b" : "+r"(a0) : "r"(a1) : "memory");
}

#include "generic.h"

/* The compiler calls it. */
__attribute__((used)) int __ctzdi2(u64 bits)
{
	int number = 0;

	for (; !(bits & 1); bits >>= 1)
		number++;
	return number;
}

/* clone3(); the child continues in begin(). */
static long clone_to(struct clone_args *how, long slot)
{
	register long a7 asm("a7") = SYS_clone3, a0 asm("a0") = (long)how;
	register long a1 asm("a1") = sizeof(*how), a2 asm("a2") = slot;

	asm volatile("ecall\n"
		     "bnez a0, 1f\n"
		     "li s0, 0\n"
		     "mv a0, a2\n"
		     "call begin\n"
		     "1:"
		     : "+r"(a0)
		     : "r"(a7), "r"(a1), "r"(a2)
		     : "ra", "memory");
	return a0;
}

/* The board stops where a block of code begins; who: a slot, or PAUSE_YIELD. */
static void pause(u64 who)
{
	register u64 a0 asm("a0") = who;

	asm volatile("j agent_pause\n"
		     ".globl agent_pause\n"
		     ".option push\n"
		     ".option norvc\n"
		     "agent_pause: nop\n"
		     ".option pop"
		     :
		     : "r"(a0)
		     : "memory");
}

asm(".globl _start\n"
    "_start: li s0, 0\n"
    "	call run");
