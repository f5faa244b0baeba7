// SPDX-License-Identifier: GPL-2.0-or-later
/* Try instructions of riscv64 as a program: print which run, and which are SIGILL. */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>

static sigjmp_buf back;

static void refused(int number)
{
	siglongjmp(back, number);
}

#define TRY(insn)                                             \
	do {                                                  \
		if (!sigsetjmp(back, 1)) {                    \
			asm volatile(insn : : : "t0", "s0");  \
			puts(insn " runs");                   \
		} else {                                      \
			puts(insn " is refused");             \
		}                                             \
	} while (0)

int main(void)
{
	signal(SIGILL, refused);
	TRY("csrr t0, time");
	TRY("csrr t0, cycle");
	TRY("csrr t0, instret");
	TRY("csrr t0, hpmcounter3");
	TRY("csrr t0, hpmcounter31");
	TRY("csrr t0, sstatus");
	TRY("c.addw s0, s0");
	TRY(".2byte 0x8000"); /* no instruction has these compressed codes */
	TRY(".2byte 0x9c61");
	TRY("lui t0, 0x80008"); /* its upper half is another one of them */
	return 0;
}
