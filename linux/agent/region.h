/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * The memory that host and agent share. It lies outside the kernel's RAM, and the agent maps
 * it by /dev/mem. Everything in it is addressed by offset, so the host needs no page tables.
 *
 * A slot belongs to one task. The host writes operations and counts seq up; the task makes
 * them and sets done to seq. Slot 0 is the agent itself, which also wakes the others.
 */
#ifndef __ASSEMBLER__
#include <stdint.h>

typedef uint8_t u8;
typedef uint32_t u32;
typedef int64_t s64;
typedef uint64_t u64;
#endif

#define REGION_BASE 0x7b7000000000ull /* the agent's virtual address of it */
#define REGION_LOW 0x3b7000000000ull /* the same, where programs have only 64 TiB */
#define REGION_LOWEST 0xb700000000ull /* and where they have 1 TiB */
#define REGION_BASE_32 0x60000000 /* and where they have 2 to 3 GiB */
#define REGION_PHYS 0x800000000ull /* its physical address */
#define REGION_PHYS_32 0x70000000 /* and where addresses have 32 bits: RAM ends before it */
#define NR_SLOTS 512
#define AGENT_SLOT 0
#define PAUSE_YIELD 0xffffffffull /* at this pause the agent waits for another task */
#define SLOT_SIZE 0x24000
#define SLOT_STACK 0x2000 /* the task's stack grows down from here */
#define SLOT_DATA 0x2000 /* offset of its data in a slot */
#define DATA_SIZE 0x22000
#define SLOTS_AT 0x1000 /* offset of slot 0 */
#define REGION_SIZE (SLOTS_AT + NR_SLOTS * SLOT_SIZE)
#define NR_OPS 24
#define NR_ARGS 6

/* Kinds of arguments. */
#define ARG_VALUE 0
#define ARG_DATA 1 /* the address of that offset in the slot's data */
#define ARG_RESULT 2 /* the result of operation ARG - ARG_RESULT of the same request */

#define OP_STOP 1 /* if it fails, the following operations are not made */
#define OP_FINALLY 2 /* made even then, if the operations whose results it uses succeeded */

/* Numbers above all system calls. */
#define AGENT_FORK 0x10000 /* slot, pid or 0: the new task's pid */
#define AGENT_GIVE_BACK 0x10001 /* zero that many bytes of free memory, so that images are small */

#define KEEP_ID 0xffffffffull
#define AGENT_MAGIC 0x746e6567612e706bull

#ifndef __ASSEMBLER__
struct agent_op {
	u64 nr;
	u64 args[NR_ARGS];
	s64 ret;
	u8 kinds[NR_ARGS];
	u8 flags;
	u8 made; /* whether it was made */
};

struct agent_slot {
	u64 seq;
	u64 done;
	u64 count;     /* operations */
	char name[16]; /* of a new task; "" or KEEP_ID: as the task that forked it */
	u64 uid, gid;
	struct agent_op ops[NR_OPS];
};

struct agent_control {
	u64 magic;               /* written by the agent when it is ready */
	u64 give_way;            /* written by the host: the task at agent_pause has to sleep */
	u64 news;                /* written by the host: there is a request */
	u64 others;              /* written by the host: how many tasks have something to do */
	u64 waker;               /* written by the host: slot of the waker, 0: there is none */
	u64 wake[NR_SLOTS / 64]; /* slots that the agent, or the waker, is to wake */
};
#endif
