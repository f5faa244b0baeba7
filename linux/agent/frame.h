/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * The agent's functions in assembly, of what an architecture says before it:
 *
 *   NUMBER, ARG_0 to ARG_5   registers of a system call
 *   KEPT                     a register that calls leave as it is
 *   TRAP, CLOBBERS           makes a call; the registers besides that it changes
 *   RESULT                   its result or -errno, of number and a0 to a5
 *   SAYS                     tells the board of a0 and a1: where bytes are, and how many
 *   BEGIN                    in a new task, calls begin() with KEPT; in the other, goes on
 *   PAUSE                    where the agent pauses (AT_PAUSE), at the begin of a block of code
 *   RETURN_FROM_SIGNAL       if the kernel has no code for that itself
 */

#ifndef WHO /* the register with a function's first argument */
#define WHO ARG_0
#endif

#ifdef ARG_5
static long call(long nr, long a, long b, long c, long d, long e, long f)
{
	register long number asm(NUMBER) = nr, a0 asm(ARG_0) = a, a1 asm(ARG_1) = b;
	register long a2 asm(ARG_2) = c, a3 asm(ARG_3) = d, a4 asm(ARG_4) = e, a5 asm(ARG_5) = f;

	asm volatile(TRAP
		     : "+r"(number), "+r"(a0), "+r"(a1), "+r"(a2), "+r"(a3), "+r"(a4), "+r"(a5)
		     :
		     : CLOBBERS);
	return RESULT;
}
#endif

#ifdef SAYS
/* Send so many bytes to the host before the region is mapped (AGENT_SAYS). */
static void send(const char *at, long size)
{
	register long a0 asm(ARG_0) = (long)at, a1 asm(ARG_1) = size;

	asm volatile(SAYS : "+r"(a0), "+r"(a1) : : "memory");
}
#endif

/* clone3(); the child continues in begin(). */
static long clone_to(struct clone_args *how, long slot)
{
	register long number asm(NUMBER) = __NR_clone3, a0 asm(ARG_0) = (long)how;
	register long a1 asm(ARG_1) = sizeof(*how), a2 asm(ARG_2) = 0, a3 asm(ARG_3) = 0;
	register long kept asm(KEPT) = slot;

	asm volatile(TRAP "\n" BEGIN
		     : "+r"(number), "+r"(a0), "+r"(a1), "+r"(a2), "+r"(a3)
		     : "r"(kept)
		     : CLOBBERS);
	return RESULT;
}

#define AT_PAUSE ".globl agent_pause\nagent_pause: "

/* The board stops where a block of code begins; who: a slot, or PAUSE_YIELD. */
static void pause(word who)
{
	register word a0 asm(WHO) = who;

	asm volatile(PAUSE : : "r"(a0) : "memory");
}

#ifdef RETURN_FROM_SIGNAL
#define SA_SIGINFO 4
/* Two forms of frames may be there: rt_sigreturn() returns from those with a siginfo. */
#define SA_RESTORER (0x04000000 | SA_SIGINFO)
extern void restorer(void);
asm("restorer: " RETURN_FROM_SIGNAL);
#endif

#ifndef PORTS
#define PORTS(use) ((void)(use)) /* there are none */
#endif

static void say(const char *text)
{
	const char *end = text;

	while (*end)
		end++;
	send(text, end - text);
}

/* The compiler calls these three. */
__attribute__((used)) void *memset(void *to, int byte, unsigned long size)
{
	volatile u8 *at = to;

	while (size--)
		*at++ = byte;
	return to;
}

__attribute__((used)) void *memcpy(void *to, const void *from, unsigned long size)
{
	volatile u8 *at = to;

	for (unsigned long i = 0; i < size; i++)
		at[i] = ((const u8 *)from)[i];
	return to;
}

__attribute__((used)) int __ctzdi2(u64 bits)
{
	int number = 0;

	for (; !(bits & 1); bits >>= 1)
		number++;
	return number;
}
