// SPDX-License-Identifier: GPL-2.0-or-later
/* Read the counters of riscv64 as a program: print which can be read, and which are SIGILL. */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>

static sigjmp_buf back;

static void refused(int number)
{
	siglongjmp(back, number);
}

#define TRY(name)                                                                 \
	do {                                                                      \
		unsigned long value = 0;                                          \
                                                                                  \
		if (!sigsetjmp(back, 1)) {                                        \
			asm volatile("csrr %0, " #name : "=r"(value));            \
			printf(#name " is read\n");                               \
		} else {                                                          \
			printf(#name " is refused\n");                            \
		}                                                                 \
	} while (0)

int main(void)
{
	signal(SIGILL, refused);
	TRY(time);
	TRY(hpmcounter3);
	TRY(hpmcounter31);
	TRY(sstatus);
	return 0;
}
