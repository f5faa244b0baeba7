/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include "../internal.h"
#include "../replacement.h"
#include "arch.h"

#define STATUS_IE 1u
#define STATUS_MASKS 7u /* with EXL and ERL, each of which masks all interrupts */
#define STATUS_MODE 0x18u
#define STATUS_KX 0x80u
#define INTERRUPTS 0xff00u /* in Status and Cause */
#define SOFTWARE 0x300u
#define SENT 0x400u
#define TIMER 0x8000u
#define CAUSE_TIMER (1u << 30)

/* libunicorn's numbers of exceptions */
enum { INTERRUPT = 8, SYSTEM_CALL = 17, RESERVED_INSTRUCTION = 20 };
#define HALT 0x10001 /* from here on, what ends a run */
#define FIRST_END 0x10000

_Static_assert(sizeof(struct mips64_cpu) <= NR_OWN * 8, "NR_OWN");
_Static_assert(sizeof(struct mips64_devices) <= NR_DEVICES * 8, "NR_DEVICES");

typedef struct mips64_state state_t;

/* Functions of libunicorn that its interface lacks but its library exports. */
struct mips64_api {
	void (*interrupt)(void *processor); /* enter the handler of the exception */
	bool (*restore)(void *processor, uintptr_t from, bool exits);
	void (*end_run)(void *processor); /* these two do not return */
	void (*begin_block)(void *processor);
};

extern struct mips64_api mips64_api;

static inline state_t *state(const struct board *b)
{
	return (state_t *)(uintptr_t)b->state;
}

static inline struct board *board_of(const state_t *s)
{
	return (struct board *)(uintptr_t)s->board;
}

static inline struct mips64_cpu *own(const struct cpu *c)
{
	return (struct mips64_cpu *)(uintptr_t)c->own;
}

static inline struct mips64_devices *devices(const struct board *b)
{
	return (struct mips64_devices *)(uintptr_t)b->devices;
}

/* paging.c */
u32 next_random(state_t *s);
bool fill(void *processor, u64 addr, int size, int access, int mode, bool probe, uintptr_t from);
extern bool (*original_fill)(void *processor, u64 addr, int size, int access, int mode, bool probe,
			     uintptr_t from);
void set_page(void *processor, u64 addr, u64 at, int rights, int mode, u64 size);
extern void (*original_set_page)(void *processor, u64 addr, u64 at, int rights, int mode, u64 size);

/* managers.c */
bool map_managers(struct board *b);

/* trap.c */
void end_run(struct board *b);
__attribute__((noreturn)) void raise_exception(state_t *s, u32 exception, int error,
					       uintptr_t from);
extern void (*original_raise)(state_t *s, u32 exception, int error, uintptr_t from);
__attribute__((noreturn)) void leave_block(void *processor, uintptr_t from);
extern void (*original_leave)(void *processor, uintptr_t from);
