/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* The order in which checked text takes locks: see locks.c. */
#include "../board.h"

#define NR_TAKEN 128
#define NR_ORDERS 1024
#define NR_USED 1024
#define NR_OUTER 6
#define LOCK_STACK 16
#define LONGEST_CYCLE 4 /* locks */

/* ways in which a lock was taken */
#define TAKEN_IN_IRQ 1
#define TAKEN_IN_BH 2
#define TAKEN_WITH_IRQ 4 /* while interrupts could come */
#define TAKEN_WITH_BH 8  /* while soft interrupts could */

#ifndef __ASSEMBLER__
/* A lock that is held. */
struct taken {
	u64 context; /* a task, or an interrupt of a processor; 0: this row is free */
	u64 lock;
	u64 at;
	u64 how; /* HOW_* */
};

/* Somebody has held a lock as it took another one. */
struct lock_order {
	u64 held;
	u64 wanted;
	u64 gone;    /* there is no such lock any more */
	u64 held_at; /* where each was taken */
	u64 wanted_at;
	u64 pid;
	u64 comm[2];
	u64 outer[NR_OUTER]; /* locks that were held each time, before both; 0 */
	u64 stack[LOCK_STACK];
};

struct used {
	u64 lock;
	u64 ways;      /* TAKEN_* */
	u64 exclusive; /* those of them in which nobody else could have it */
	u64 at[4];     /* of each way */
};

/* Somebody has tried in line to take a lock that was taken. */
struct attempt {
	u64 lock;
	u64 at;
};

struct locks {
	u64 nr_orders;
	u64 nr_used;
	struct attempt attempts[MAX_CPUS]; /* the last one of each processor */
	struct taken taken[NR_TAKEN];
	struct lock_order orders[NR_ORDERS];
	struct used used[NR_USED];
};
#endif
