// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Random programs of instructions whose effect a processor and its kernel decide together. What
 * these are stands in a header for each architecture.
 *
 * instructions FIRST COUNT: runs COUNT programs from number FIRST on, and prints a line for each:
 * where and how it ended, and the registers then; with COUNT 1 all of them, and the code. It
 * uses no library, so that all addresses are the same wherever it runs, and switches the machine
 * off at the end if it is the first process. No instruction here depends on what is optional, or
 * is one of those of which kpfs/manual/differs.tsv says that they differ inside.
 */
#define _GNU_SOURCE
#include <linux/reboot.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "chance.h"

#define CODE 0x10000000ul
#define DATA 0x20000000ul
#define ROOM 0x4000
#define READ_ONLY 0x20010000ul
#define STACK (DATA + 0x1800)
#define MAPPING (MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED)

typedef unsigned long word;
typedef unsigned char byte;

struct action {
	void *handler;
	word flags;
#ifndef __riscv
	void *restorer;
#endif
	uint64_t mask;
};

/* ---- what is printed */
static char line[32768];
static unsigned int used;

static void put(const char *text)
{
	while (*text && used < sizeof(line))
		line[used++] = *text++;
}

static void put_hex(word value)
{
	int shift = 8 * sizeof(value) - 4;

	while (shift && !(value >> shift))
		shift -= 4;
	for (; shift >= 0 && used < sizeof(line); shift -= 4)
		line[used++] = "0123456789abcdef"[value >> shift & 15];
}

static void put_field(const char *name, word value)
{
	put(name);
	put_hex(value);
}

/* ---- chance */
static unsigned int below(unsigned int limit)
{
	return (uint32_t)draw() % limit;
}

#define ONE_OF(list) (list)[below(sizeof(list) / sizeof *(list))]

static word some_address(void)
{
	static const word places[] = {
		DATA,
		DATA + 1,
		DATA + 0xfff,
		DATA + 0x1001,
		DATA + ROOM - 1,
		DATA + ROOM,
		READ_ONLY,
		READ_ONLY + 3,
		0,
		1,
		CODE,
		CODE + 0x1000,
		(word)-1,
		(word)-8,
		DATA + 32,
		DATA + 16,
		(word)1 << 31,
		DATA + 0x1ff8,
		DATA + 0x0ff9,
#ifdef __x86_64__ /* the stack is there on riscv64 */
		0x800000000000,
		0x7ffffffff000,
#endif
#if __SIZEOF_LONG__ == 8
		0xffff800000000000,
		0xffffffff81000000,
		0x8000000000000000,
		0xfffffffffffff000,
#endif
	};

	return ONE_OF(places);
}

/* ---- the program, and its trail: what it left in the registers at each signal */
static byte *at;
static int all;                    /* registers are printed */
static word steps, trail, program; /* its number */

static void emit(const byte *bytes, int size)
{
	while (size--)
		*at++ = *bytes++;
}

static void emit_word(word value, int size)
{
	emit((const byte *)&value, size);
}

static word mix(word trail, word value)
{
	return (trail ^ value) * 0x9e3779b1u + (trail >> 7);
}

static void end_line(void);

#if defined __aarch64__
#include "instructions_arm64.h"
#elif defined __riscv
#include "instructions_riscv64.h"
#else
#include "instructions_x86.h"
#endif

static void end_line(void)
{
	put("\n");
	call(SYS_write, 1, (word)line, used, 0);
	used = 0;
}

static void on_signal(int number, siginfo_t *info, void *data)
{
	const word address = number == SIGTRAP ? 0 : (word)info->si_addr;

	if (goes_on(number, info, data))
		return;
	put_field(" signal ", number);
	put_field(" code ", info->si_code & 0xffff);
	put_field(" address ", address);
	put_place(data);
	put_field(" steps ", steps);
	put_field(" trail ", trail);
	if (all) {
		put_registers(data);
		put("\n");
		for (const byte *code = (byte *)CODE; code < at; code++)
			put_field(" ", *code);
	}
	end_line();
	call(SYS_exit_group, 0, 0, 0, 0);
}

static byte other_stack[16384] __attribute__((aligned(16)));

static void run(void)
{
	struct action action = { .handler = on_signal, .flags = SA_SIGINFO | SA_ONSTACK };
	const uint64_t second[] = { 1, 1 };
	stack_t alternate = { other_stack, 0, sizeof other_stack };

#ifdef RESTORER
	action.flags |= RESTORER;
	action.restorer = back;
#endif
	/* it may loop, all signals blocked */
	call(SYS_prlimit64, 0, RLIMIT_CPU, (word)&second, 0);
	map(CODE, 0x2000, 7);
	map(DATA, ROOM, 3);
	map(READ_ONLY, 0x1000, 1);
	call(SYS_sigaltstack, (word)&alternate, 0, 0, 0);
	for (int number = 1; number < 32; number++)
		call(SYS_rt_sigaction, number, (word)&action, 0, 8);
	enter();
}

static word number_of(const char *text)
{
	word value = 0;

	for (; *text; text++)
		value = 10 * value + *text - '0';
	return value;
}

void __attribute__((used)) begin(word *args)
{
	word first, count;

	if (args[0] != 3)
		call(SYS_exit_group, 2, 0, 0, 0);
	first = number_of((char *)args[2]);
	count = number_of((char *)args[3]);
	all = count == 1;
	for (word n = first; n < first + count; n++) {
		int status = 0, child;

		put_hex(n);
		child = call(SYS_clone, SIGCHLD, 0, 0, 0);
		if (!child) {
			state = program = n;
			run();
		}
		follow(child, &status);
		used = 0;
		if (status) {
			put_hex(n);
			put_field(" status ", status);
			end_line();
		}
	}
	if (call(SYS_getpid, 0, 0, 0, 0) == 1)
		call(SYS_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2,
		     LINUX_REBOOT_CMD_POWER_OFF, 0);
	call(SYS_exit_group, 0, 0, 0, 0);
}
