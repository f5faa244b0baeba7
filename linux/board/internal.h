/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include "board.h"
#include "uc.h"

#define FLAGS_TF 0x100
#define FLAGS_IF 0x200
#define FLAGS_NT 0x4000
#define FLAGS_RF 0x10000

/* memory.c */
u64 board_walk(const struct board *b, u64 cr3, u64 addr);
u64 read_word(struct board *b, u64 addr);
void write_word(struct board *b, u64 addr, u64 value);

/* trap.c */
void set_mode(struct board *b, int mode);
void forget_exception(struct board *b);
void deliver(struct board *b, int vector, bool has_error, u32 error);
bool hook_traps(struct board *b);

/* apic.c */
void timer_tick(struct board *b);
int next_vector(struct board *b);
bool interrupt_due(const struct board *b);
bool map_apic(struct board *b);

/* ports.c */
bool hook_ports(struct board *b);

/* run.c */
void board_stop(struct board *b, u64 why, u64 at);
