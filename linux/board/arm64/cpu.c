// SPDX-License-Identifier: GPL-2.0-or-later
/* How processors of arm64 and armhf start and take turns. */
#include "arm64.h"

#define MPIDR_VALID 0x80000000u

#if BITS == 32
/*
 * Kernels of 32 bits run on the same processor, whose EL1 is AArch32 then (HCR_EL2). Of libunicorn's
 * engine for arm64, what knows registers of AArch64 alone gives way to functions of the board.
 */
#define MODE_SUPERVISOR 0x13
#define DAIF_AT_START 0x1c0
#define REG_PC 260 /* UC_ARM64_REG_* */
#define REG_X0 199
#define PC 15

IMPORT(void, rebuild_flags, arm_rebuild_hflags_aarch64, (void *state));
IMPORT(int, read_any_register, reg_read_aarch64,
       (void *state, int mode, u32 number, void *value, size_t *size));
IMPORT(int, write_any_register, reg_write_aarch64,
       (void *state, int mode, u32 number, const void *value, size_t *size, int *sets_pc));

static u64 state_of(uc_engine u)
{
	return AT(u64, AT(void *, u, ENGINE_PROCESSOR), STATE);
}

static void set_pc(uc_engine u, u64 addr)
{
	u64 state = state_of(u);

	FIELD(u64, state + ARM64_STATE_PC) = addr;
	if (!FIELD(u32, state + ARM64_STATE_IS_64))
		FIELD(u32, state + ARM64_STATE_R + 4 * PC) =
			addr & (FIELD(u32, state + ARM64_STATE_THUMB) ? ~1u : ~3u);
}

static u64 get_pc(uc_engine u)
{
	u64 state = state_of(u);

	return FIELD(u32, state + ARM64_STATE_IS_64) ? FIELD(u64, state + ARM64_STATE_PC) :
						       FIELD(u32, state + ARM64_STATE_R + 4 * PC);
}

/* Return the place of r0 to r15 where they are what a number means, or NULL. */
static u32 *small_register(void *state, u32 number)
{
	u32 n = number == REG_PC ? PC : number - REG_X0;

	return n > PC || AT(u32, state, ARM64_STATE_IS_64) ? NULL :
							     &AT(u32, state, ARM64_STATE_R + 4 * n);
}

static int read_register(void *state, int mode, u32 number, void *value, size_t *size)
{
	const u32 *place = small_register(state, number);

	if (!place)
		return read_any_register(state, mode, number, value, size);
	*(u64 *)value = *place;
	return 0;
}

static int write_register(void *state, int mode, u32 number, const void *value, size_t *size,
			  int *sets_pc)
{
	u32 *place = small_register(state, number);

	if (!place)
		return write_any_register(state, mode, number, value, size, sets_pc);
	*place = *(const u64 *)value;
	*sets_pc = number == REG_PC;
	return 0;
}

static bool replace_registers(struct board *b)
{
	uc_engine u = engine(b);

	if (AT(void *, u, ENGINE_READ_REGISTER) != read_any_register ||
	    AT(void *, u, ENGINE_WRITE_REGISTER) != write_any_register)
		return false;
	AT(void *, u, ENGINE_READ_REGISTER) = read_register;
	AT(void *, u, ENGINE_WRITE_REGISTER) = write_register;
	AT(void *, u, ENGINE_SET_PC) = set_pc;
	AT(void *, u, ENGINE_GET_PC) = get_pc;
	return true;
}

static void begin_at(struct board *b, u32 addr)
{
	FIELD(u32, b->state + ARM64_STATE_IS_64) = 0;
	FIELD(u32, b->state + ARM64_STATE_CPSR) = MODE_SUPERVISOR;
	FIELD(u32, b->state + ARM64_STATE_DAIF) = DAIF_AT_START;
	FIELD(u32, b->state + ARM64_STATE_THUMB) = addr & 1;
	general(b)[PC] = addr & ~1u;
	rebuild_flags((void *)(uintptr_t)b->state);
}

/* Begin at an address in AArch32. */
__attribute__((visibility("default"))) void board_mode(struct board *b, u64 addr)
{
	begin_at(b, addr);
}
#else
static bool replace_registers(struct board *b)
{
	(void)b;
	return true;
}

static void begin_at(struct board *b, u64 addr)
{
	FIELD(u64, b->state + ARM64_STATE_PC) = addr;
}
#endif

void start_cpu(struct board *b)
{
	const struct cpu *c = this_cpu(b);

	FIELD(u64, b->state + ARM64_STATE_MPIDR) = MPIDR_VALID | b->current;
	general(b)[0] = c->argument;
	begin_at(b, c->start);
}

void switch_context(struct board *b, struct cpu *from, struct cpu *to)
{
	uc.context_save(engine(b), (void *)(uintptr_t)from->context);
	uc.context_restore(engine(b), (void *)(uintptr_t)to->context);
	uc.ctl(engine(b), UC_CTL_TLB_FLUSH);
}

bool init_arch(struct board *b)
{
	return replace_registers(b) && patch_registers(b) && hook_exceptions(b, on_exception) &&
	       map_gic(b);
}
