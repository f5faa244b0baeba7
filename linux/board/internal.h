/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include "../agent/region.h"
#include "board.h"
#include "uc.h"

#define FLAGS_TF 0x100
#define FLAGS_IF 0x200
#define FLAGS_NT 0x4000
#define FLAGS_RF 0x10000

/* Each file calls only functions of the files that stand before it here. */

/* stop.c */
void board_stop(struct board *b, u64 why, u64 at);

/* memory.c */
u64 board_walk(const struct board *b, u64 cr3, u64 addr);
u64 read_word(struct board *b, u64 addr);
void write_word(struct board *b, u64 addr, u64 value);

/* watch.c */
void watch(struct board *b);
void watch_block(struct board *b, u64 addr);

/* trap.c */
void set_mode(struct board *b, int mode);
void forget_exception(struct board *b);
bool deliver(struct board *b, int vector, bool has_error, u32 error);
bool hook_traps(struct board *b);

/* apic.c */
void reset_apic(struct cpu *c);
bool interrupt_due(const struct board *b, const struct cpu *c);
int next_interrupt(struct board *b);
void set_due(struct board *b);
bool map_apic(struct board *b);

/* ports.c */
bool hook_ports(struct board *b);

/* cpu.c */
void select_cpu(struct board *b, u64 number);
bool others_can_run(const struct board *b);
bool next_cpu(struct board *b);
void begin_turn(struct board *b);
void call_agent(struct board *b);
bool add_cpus(struct board *b);

static inline struct cpu *this_cpu(struct board *b)
{
	return &b->cpus[b->current];
}
