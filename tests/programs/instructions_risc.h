// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The part of instructions.c for arm64 and riscv64, each of which has a header of its own: here, a
 * program goes on behind an instruction that raised a signal.
 *
 * The instructions that reach the system are not drawn by chance, as few of them mean something:
 * program N tries the next EACH of them after those of N - 1.
 */

#define STEPS 60 /* signals of a program */

static word call6(word nr, word a, word b, word c, word d, word e, word f);

static word call(word nr, word a, word b, word c, word d)
{
	return call6(nr, a, b, c, d, 0, 0);
}

static void map(word address, word size, int access)
{
	call6(SYS_mmap, address, size, access, MAPPING, -1, 0);
}

static int is_left_out(uint32_t insn);
static word *general(const ucontext_t *context);
static word *floats(const ucontext_t *context);
static word detail(const ucontext_t *context); /* what the kernel tells of the fault */
static int length(uint32_t insn);
static word some_float(int n);
static void make(void);
static void clear(int reg);

static word mixed(word trail, const word *general)
{
	for (int n = 0; n < GENERAL; n++)
		trail = mix(trail, general[n] & (n == FLAGS ? COMPARED_FLAGS : -1));
	return trail;
}

static void put_place(const ucontext_t *context)
{
	put_field(" pc ", general(context)[PC]);
	put_field(" detail ", detail(context));
}

static void put_registers(const ucontext_t *context)
{
	put("\n registers");
	for (int n = 0; n < GENERAL; n++)
		put_field(" ", general(context)[n]);
	put("\n floats");
	for (int n = 0; n < FLOATS; n++)
		put_field(" ", floats(context)[n]);
}

static void emit_insn(uint32_t insn)
{
	if (!is_left_out(insn))
		emit_word(insn, length(insn));
}

static word some_value(void)
{
	switch (below(4)) {
	case 0:  return below(64);
	case 1:  return draw();
	default: return some_address();
	}
}

/* Give all registers values, and begin. */
static void begin_program(const ucontext_t *context)
{
	for (int n = 0; n < GENERAL; n++)
		if (n < PC || n > LAST_FIXED)
			general(context)[n] = some_value();
	for (int n = 0; n < FLOATS; n++)
		floats(context)[n] = some_float(n);
	general(context)[PC] = CODE;
	general(context)[SP] = STACK;
	general(context)[NUMBER] = NO_CALL;
}

static int goes_on(int number, const siginfo_t *info, const ucontext_t *context)
{
	word *pc = &general(context)[PC], was = *pc;

	if (number == SIGUSR1) {
		begin_program(context);
		return 1;
	}
	trail = mixed(trail, general(context));
	for (int n = 0; n < FLOATS; n++)
		trail = mix(trail, floats(context)[n]);
	trail = mix(mix(trail, number), info->si_code);
	trail = mix(mix(trail, (word)info->si_addr), detail(context));
	if (was < CODE || was >= (word)at || ++steps == STEPS)
		return 0;
	if (all) {
		put_field("\n at ", was);
		put_field(" signal ", number);
		put_field(" code ", info->si_code);
		put_field(" address ", (word)info->si_addr);
		put_field(" detail ", detail(context));
		put_field(" trail ", trail);
		put_registers(context);
	}
	*pc += length(*(uint32_t *)was);
	return 1;
}

static void enter(void)
{
	for (word *data = (word *)DATA; data < (word *)(DATA + ROOM); data++)
		*data = some_value();
	at = (byte *)CODE;
	make();
	call(SYS_mprotect, CODE, 0x2000, PROT_READ | PROT_EXEC, 0); /* no program changes itself */
	call(SYS_kill, call(SYS_getpid, 0, 0, 0, 0), SIGUSR1, 0, 0);
}
