/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include "../internal.h"
#include "arch.h"

/* A processor of libunicorn has a jmp_buf of the host's C library before its state. */
#ifdef __aarch64__
#define JMP_BUF_MORE ARM64_JMP_BUF_MORE
#else
#define JMP_BUF_MORE 0
#endif
#define CPU_EXCEPTION (ARM64_EXCEPTION + JMP_BUF_MORE)
#define CPU_STATE (ARM64_STATE + JMP_BUF_MORE)
#define CPU_REGISTERS (ARM64_REGISTERS + JMP_BUF_MORE)
#define PSTATE_I 0x80

/* Exceptions by libunicorn's numbers. */
#define EXCEPTION_SVC 2
#define EXCEPTION_IRQ 5
#define EXCEPTION_SMC 13

#define FIELD(type, at) (*(type *)(uintptr_t)(at))

_Static_assert(sizeof(struct arm64_cpu) <= NR_OWN * 8, "NR_OWN");
_Static_assert(sizeof(struct arm64_devices) <= NR_DEVICES * 8, "NR_DEVICES");

/* Functions of libunicorn that its interface lacks but its library exports. */
struct arm64_api {
	void (*do_interrupt)(void *cpu);
	u8 *(*get_register)(void *registers, u32 key);
	u64 (*physical_page)(void *cpu, u64 addr, u32 *attributes);
};

extern struct arm64_api arm64_api;

static inline void *processor(const struct board *b)
{
	return (void *)(uintptr_t)(b->state - CPU_STATE);
}

static inline u64 *general(const struct board *b)
{
	return &FIELD(u64, b->state + ARM64_STATE_X);
}

static inline struct arm64_cpu *own(const struct cpu *c)
{
	return (struct arm64_cpu *)(uintptr_t)c->own;
}

static inline struct arm64_devices *devices(const struct board *b)
{
	return (struct arm64_devices *)(uintptr_t)b->devices;
}

/* gic.c */
bool map_gic(struct board *b);

/* sysregs.c */
bool patch_registers(struct board *b);

/* trap.c */
bool hook_traps(struct board *b);
