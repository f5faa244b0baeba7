/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * The board that a Linux kernel finds: processors, interrupts, clock, a serial port. What
 * depends on the kernel's architecture is in a folder of its name, and struct cpu and struct
 * board have room for that (own, devices).
 *
 * One engine of libunicorn is all processors in turn. They share its memory, its translated
 * code and the clock.
 *
 * It is built without a C library, and calls libunicorn through a table that Python fills,
 * so that one file serves every Linux of its architecture.
 */
#ifndef __ASSEMBLER__
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../emulator/blocks.h"

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
#endif

#define NEVER (~0ull)
#define HERE (NEVER - 1) /* the block that is about to begin */
#define SPACE_PROGRAM 1 /* whose addresses are meant; 0: the kernel's */
#define SPACE_AGENT 2
#define FAILED (NEVER - 2) /* in call_zeros: only if a function that has returned has failed */
#define HOLE_BASE 0x80000000ull /* from here up to 4 GiB only devices answer */
#define HOLE_END 0x100000000ull
#define MAX_CPUS 4
#define NR_OWN 672 /* words of an architecture's struct for a processor */
#define NR_DEVICES 16 /* and of that for what all processors share */
#define CONSOLE_SIZE 0x10000
#define NR_CALLS 48
#define NR_HOOKED 384
#define NR_HIDDEN 96
#define NR_SEEN 8 /* words with a bit for each slot of the agent's tasks */
#define NR_LOSSES 64
#define NR_LOST 256
#define NR_PENDING 128 /* functions that have begun */
#define NR_RETURNS 128 /* places that they return to */
#define NR_HOLDERS 64
#define NR_WATCHED 512 /* words of 8 addresses each */
#define NS_PER_BLOCK 20
#define NS_PER_LOOK 20 /* at the clock */
#define LOCKED_OUT 500000000ull /* blocks, about 10 s, for which a due interrupt may wait */
#define TURN_BLOCKS 0x100000 /* after so many blocks the host gets a turn */
#define MAX_FAULTS 1000 /* exceptions in a row, none of whose handlers can begin */
#define LOOK_BLOCKS 256 /* blocks between two looks at the host's clock */
#define CPU_TURN 50000ull /* ns after which another processor runs */
#define PATIENCE 10000000ull /* ns that the agent rests while others run */

/* Why board_run() returned. The first four stop at an exact instruction. */
#define STOP_TURN 0 /* the host is to look at its own affairs */
#define STOP_PAUSE 1 /* a task has done its work, or the agent found no other that can run: see who */
#define STOP_BREAK 2 /* at break_at: panic() */
#define STOP_LOCKUP 3 /* interrupts off for LOCKED_OUT */
#define STOP_FLUSH 4 /* internal: drop all translated code */
#define STOP_IRQ 5 /* internal: deliver an interrupt */
#define STOP_NEXT 6 /* internal: another processor's turn */
#define STOP_CALL 7 /* one of calls is about to run: asked_at */
#define STOP_HALTED 8 /* no interrupt will ever come */
#define STOP_FAULT 9 /* no handler for the exception vector */
#define STOP_ERROR 10 /* libunicorn failed with error */
#define STOP_LOST 11 /* libunicorn ran past the place to stop at */
#define STOP_DEBUG 12 /* for a debugger, before any instruction: see emulator/stops.h */

#define STOP_HOOK 13 /* internal: hook the block at new_return */
#define STOP_HIDE 14 /* internal: return from the function that begins */
#define STOP_ACT 15 /* internal: leave a call out, or make another one: see text.c */

/* When a function loses something: see lost.c. place is what each of them says. */
#define LOSS_NONE 0
#define LOSS_ALWAYS 1   /* unless one of the other functions has called it */
#define LOSS_GUARD 2    /* the processor's word at place is not 0 where it begins */
#define LOSS_GUARD_OF 3 /* the processor's word that the object's word at place leads to is not 0 */
#define LOSS_ZERO 4     /* it returns 0 */
#define LOSS_FAILED 5   /* it returns a negative number */
#define LOSS_GROWN 6    /* the object's number at place has changed when it returns */
#define LOSS_RETURN 7   /* likewise, for the return of the function that regs are of */

/* States of a processor. */
#define CPU_RUNS 0
#define CPU_HALTED 1 /* until an interrupt */
#define CPU_RESTS 2 /* the agent is at its pause there, while others run */
#define CPU_OFF 3 /* until another one starts it */

#ifndef __ASSEMBLER__
/* A processor, without its registers. */
struct cpu {
	u64 state;
	u64 context;     /* uc_context *: its registers, while another one runs */
	u64 start;       /* where to start; NEVER once it has */
	u64 argument;    /* what start_cpu() is to give it, on some architectures */
	u64 since;       /* when it began to rest */
	u64 called;      /* go on behind the agent's pause */
	u64 late;        /* the block since which an interrupt has been due; 0: none */
	u64 timer;       /* when its timer is due, or NEVER */
	u64 own[NR_OWN]; /* of the architecture */
};
#endif

/* A block of code that was translated: see ahead.c. */
struct translation {
	u64 pc;
	u64 pages[2]; /* offsets in RAM of its pages; the second one may be NEVER */
	u32 flags;    /* libunicorn's, of the processor and of the translation */
	u32 kind;
	u32 size;
	u32 sum; /* of its code */
};

/* A function that may lose something, for an object: one of its arguments, plus shift. */
struct loss {
	u64 addr;
	u64 size;
	u64 kind;     /* LOSS_* */
	u64 argument; /* its number; NEVER: all calls are one object */
	u64 shift;
	u64 place;
	u64 needs; /* only if the object's word there is not 0; or NEVER */
	u64 key;   /* the object's word there tells it from an earlier one; or NEVER */
	u64 regs;  /* the number of the argument that is a struct pt_regs, for LOSS_RETURN */
};

/* What one object has lost at one function. */
struct lost {
	u64 loss; /* index of the function */
	u64 object;
	u64 key;
	u64 count;
	u64 others; /* of these, while the guard was another task's or an interrupt's */
	u64 out;    /* functions whose return was missed and that have not returned yet */
	u64 most;   /* the largest number that out has been */
};

/* A function that has begun, and what to look at when it returns. */
struct pending {
	u64 at; /* the address that it returns to; 0: this one is free */
	u64 sp; /* as it will be there */
	u64 loss;
	u64 object;
	u64 before;
	u64 regs;
	u64 out; /* index of struct lost, plus 1, if it is one whose return was missed */
};

struct holder {
	u64 guard;
	u64 stack; /* the stack on which the guard was taken last */
};

struct board {
	struct block_counter counter; /* without counts on_block() keeps it */

	u64 uc;    /* uc_engine * */
	u64 state; /* the processor's in libunicorn: see struct state */
	u64 ram;   /* the guest's memory, and its size in bytes */
	u64 ram_size;

	/* set by the host */
	u64 nr_cpus;
	u64 pause;                /* address at which the agent and its tasks wait */
	u64 break_at;             /* address at which to stop: panic() */
	u64 calls[NR_CALLS];      /* functions before which to ask the host */
	u64 call_zeros[NR_CALLS]; /* only if the word there from the first argument is 0; FAILED */
	u64 counts;               /* libunicorn counts blocks: see hook_block() */
	u64 tracks;               /* stores to code are noticed: see hook_stores() */
	u64 call_agent;           /* wake the agent on the processor where it rests */
	u64 turn_ticks;           /* of the host's clock, after which it gets a turn, too */
	u64 slow_at;              /* blocks at the last turn that the host's clock has ended */

	/* time, in ns: the processors' counters run at 1 GHz */
	u64 now; /* when block number settled began: see settle() */
	u64 settled;
	u64 deadline; /* when the first of the timers is due, or NEVER */

	/* why the board stopped */
	u64 stop;
	u64 stop_at;
	u64 who; /* slot of the task that stands at its pause; 0: the agent */
	u64 error;
	u64 vector;
	u64 unknown; /* first bytes of a program's last invalid instruction */

	u64 current;     /* the processor that runs */
	u64 turn_end;    /* when it is another one's turn */
	u64 due;         /* when to see to turn_end, timer and what is pending */
	u64 host_turn;   /* the block at which the host gets a turn */
	u64 begin;       /* of board_run(), by host_ticks() */
	u64 fault_block; /* the last block before an exception, and exceptions since it */
	u64 faults;

	/* processors that wait before an access, as is done to runs of a search: hold.h */
	u64 holds;          /* struct holds *, 0: none waits */
	u64 held[MAX_CPUS]; /* until when each of them waits */
	u64 deaf[MAX_CPUS]; /* it takes no interrupts meanwhile */

	u64 watched[NR_WATCHED]; /* a byte for some addresses each: WATCH_*, what may be there */
	u64 hooked[NR_HOOKED];   /* blocks that call on_block() though libunicorn counts */
	u64 nr_hooked;
	u64 on_block;   /* the function */
	u64 asked_at;   /* the call for which the board stopped and which has not run yet; 0 */
	u64 flushed_at; /* code was dropped, and the next block begins first; 0 */
	u64 coverage;   /* struct coverage *, if something is covered: emulator/coverage.h */
	u64 stops;      /* struct stops *, if a debugger has any */
	u64 texts;      /* struct texts *, if instructions are looked at: text.h */
	u64 entered;    /* the block in which a debugger has stopped, which goes on with its rest */

	/* functions that do nothing for kpfs's own tasks: see own.c */
	u64 hidden[NR_HIDDEN];
	u64 hidden_values[NR_HIDDEN]; /* what they return then; NEVER: nothing */
	u64 hides;                    /* the one of them that is about to return, plus 1 */
	u64 seen[NR_SEEN];            /* the tasks whose requests are those of programs */
	u64 region;                   /* the memory that host and agent share, here */
	u64 regs_size;                /* of struct pt_regs, at the end of a task's stack */
	u64 agent_stack;              /* the agent's stack pointer, at its last pause */

	/* what the kernel loses: see lost.c */
	u64 per_cpu[MAX_CPUS]; /* offsets of the kernel's per-CPU data */
	struct loss losses[NR_LOSSES];
	struct lost lost[NR_LOST];
	u64 nr_lost;
	u64 lost_more; /* for which there was no room in lost */
	u64 lost_told; /* the number of those in lost that the host knows */
	struct pending pending[NR_PENDING];
	u64 next_pending;
	u64 nr_pending; /* those that have not returned */
	u64 returns[NR_RETURNS];
	u64 nr_returns;
	u64 new_return; /* one of these, whose block is not hooked yet; 0 */
	struct holder holders[NR_HOLDERS];

	u64 devices[NR_DEVICES]; /* of the architecture */

	/* printed text */
	u64 console_size; /* bytes in all; the ring keeps the last CONSOLE_SIZE */
	u64 debug_size;
	u64 debug_limit;
	u64 debug; /* a buffer of the host for what the agent says */

	/* counters */
	u64 syscalls;
	u64 exceptions;
	u64 interrupts;
	u64 halts;
	u64 flushes;
	u64 strays; /* accesses to absent addresses, and the last one's address */
	u64 stray_at;
	u64 turns; /* of processors */
	u64 reset; /* uc_context *: a processor after reset */
	struct cpu cpus[MAX_CPUS];
	u8 console[CONSOLE_SIZE];
};
