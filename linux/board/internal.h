/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include "../../emulator/coverage.h"
#include "../../emulator/stops.h"
#include "../agent/region.h"
#include "board.h"
#include "uc.h"

#ifndef BITS
#define BITS 64 /* of a register; a folder may serve kernels of 32, too, by another library */
#endif

/* ---- what each architecture has: ARCH/ */
extern const u32 pause_size; /* bytes of the instruction that the agent pauses at */
extern const u32 nr_modes;   /* for each of which libunicorn translates addresses */
extern const u32 page_size;  /* libunicorn's */
extern const bool is_big_endian;
extern const u64 region_base; /* the agent's address of the region */
extern const u32 not_ahead;   /* flags of blocks whose code depends on more of the state */
extern const u64 nowhere;     /* the address at which libunicorn is to end a run: never reached */
extern const u32 local_entry; /* bytes behind a function's entry at which callers nearby may enter */

#if BITS == 32
#define STACK_BITS 13 /* kernel stacks are 8 KiB, and aligned */
#else
#define STACK_BITS 14 /* 16 KiB */
#endif
#define STACK_SIZE (1ull << STACK_BITS)

/* Where a function returns to, and the stack pointer there. */
struct back {
	u64 at;
	u64 sp;
};

/* paging.c */
u64 board_walk(const struct board *b, u64 addr);
u64 board_walk_in(const struct board *b, u64 addr, int space);

/* trap.c: the registers, and how the running processor takes interrupts */
u64 *pc(struct board *b);
u64 linear_pc(const struct board *b);
u64 argument(const struct board *b, int number); /* of the function that begins here */
u64 result(const struct board *b);               /* of the function that has returned here */
u64 stack_pointer(const struct board *b);
struct back returns_to(struct board *b);               /* the function that begins here */
struct back probed_returns(struct board *b, u64 regs); /* the one that a struct pt_regs is of */
bool in_program(const struct board *b); /* which has addresses of the kernel's, too */
u64 program_stack(struct board *b); /* the stack pointer with which the task has entered; or 0 */
void return_now(struct board *b, u64 value); /* from the function that begins here */
bool takes_interrupts(const struct board *b);
bool is_woken(const struct board *b); /* by interrupts, when it has halted now */
int next_interrupt(struct board *b);  /* take it; -1 if there is none */
bool deliver_interrupt(struct board *b, int number);
u32 swap_flags(struct board *b, u32 flags); /* those that translations depend on; return them */
void before_run(struct board *b);           /* these two may be missing */
void after_run(struct board *b);

/* its interrupt controller */
bool pending(const struct cpu *c);
void reset_cpu(struct cpu *c);

/* its processors and devices */
void start_cpu(struct board *b); /* whose registers are those of a new one */
void switch_context(struct board *b, struct cpu *from, struct cpu *to); /* of the engine */
bool init_arch(struct board *b);

/* ---- common. Each file calls only functions of the files that stand before it here. */

/* stop.c */
void board_stop(struct board *b, u64 why, u64 at);
void stop_before(struct board *b, u64 why, u64 at);
void print(struct board *b, u8 c);
bool give_up(struct board *b, u64 vector);
bool faults_again(struct board *b, u64 vector);

/* memory.c */
u64 read_word(struct board *b, u64 addr);
u32 read_int(struct board *b, u64 addr);
bool hears(struct board *b, u64 addr, u32 insn);
void drop_code(struct board *b, u64 at, u64 size);
u64 function_at(struct board *b, u64 addr);
bool map_hole(struct board *b, u64 begin, u64 end);
bool map_console(struct board *b, u64 begin, u64 size, u64 ready);

/* hook.c */
bool hook_stores(struct board *b);
bool hook_all(struct board *b);
bool hook_block(struct board *b, u64 addr);
bool hook_exceptions(struct board *b, void (*function)(uc_engine, u32, void *));

/* own.c */
bool hook_hidden(struct board *b);
bool hide(struct board *b, u64 addr);
void hide_now(struct board *b);

/* lost.c */
bool hook_losses(struct board *b);
bool hook_return(struct board *b);
bool look_for_losses(struct board *b, u64 addr, u8 what);

/* watch.c */
void watch(struct board *b);
void watch_block(struct board *b, u64 addr, u8 what);

/* cpu.c */
bool interrupt_due(const struct board *b, const struct cpu *c);
void set_look(struct board *b);
void set_due(struct board *b);
void select_cpu(struct board *b, u64 number);
u64 read_time(struct board *b);
void notify(struct board *b, const struct cpu *c);
bool turn_on(struct board *b, struct cpu *c, u64 entry);
void turn_off(struct board *b, struct cpu *c);
bool turn_on_with(struct board *b, u64 number, u64 entry, u64 argument);
bool others_can_run(const struct board *b);
bool next_cpu(struct board *b);
void begin_turn(struct board *b);
void call_agent(struct board *b);
bool add_cpus(struct board *b);

/* What a block may be that on_block() looks closer at. */
#define WATCH_CALL 1
#define WATCH_HIDDEN 2
#define WATCH_LOSS 4
#define WATCH_RETURN 8

/* Return what is known of the addresses that share a byte with one. */
static inline u8 *watched(struct board *b, u64 addr)
{
	return (u8 *)b->watched + (addr >> 4 & (NR_WATCHED * 8 - 1));
}

/* Look closer at blocks at the entries of a function. */
static inline void watch_function(struct board *b, u64 addr, u8 what)
{
	*watched(b, addr) |= what;
	*watched(b, addr + local_entry) |= what;
}

/* Return the number of blocks that have begun. */
static inline u64 begun(const struct board *b)
{
	return blocks_begun(&b->counter);
}

/* Let the time of the blocks since the last call pass. Whatever needs the time calls this. */
static inline u64 settle(struct board *b)
{
	u64 blocks = begun(b);

	b->now += (blocks - b->settled) * NS_PER_BLOCK;
	b->settled = blocks;
	return b->now;
}

/* The processor has not run the block that it stands in from an address on. */
static inline void left_block(struct board *b, u64 addr)
{
	if (b->coverage)
		coverage_left((struct coverage *)(uintptr_t)b->coverage, addr);
}

static inline struct cpu *this_cpu(struct board *b)
{
	return &b->cpus[b->current];
}
