/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * What is done to one run of a command: accesses at which a processor waits while others run, and
 * calls that fail. The host writes the orders, before the run; see plan.py.
 */
#include "text.h"

#define NR_ORDERS 4096
#define NR_FAULTS 4
#define NR_PLACES 4096 /* a power of two */
#define PARTY_STACK 24 /* words that may be return addresses */
#define MOST_HELD 24   /* times that a place is held if each access is to be */
#define NR_LEVELS 3    /* of a processor: a task, a soft interrupt in it, an interrupt in both */
#define NR_TOUCHES 4096 /* a power of two */
#define NR_TRAILS 64
#define NR_STEPS 12

#ifndef __ASSEMBLER__
/* An access before which the processor waits. */
struct order {
	u64 number; /* of the accesses, from 1 on */
	u64 ns;
	u64 at;    /* address of the instruction; 0: each access of the text counts */
	u64 until; /* the wait ends when another task begins the instruction there; 0 */
	u64 timer; /* the processor's next timer is due at once */
	u64 then;  /* ns that the other task waits before its next access, behind until */
};

/* A task that takes part in a finding. */
struct party {
	u64 pid;
	u64 comm[2];
	u64 stack[PARTY_STACK];
};

/* A processor that waits, before an access. */
struct hold {
	u64 at; /* the instruction; 0: it does not wait */
	u64 sp;
	u64 addr; /* of what it accesses */
	u64 phys; /* offset in RAM of what it accesses; NEVER: nothing */
	u64 bytes;
	u64 flags; /* INSN_* */
	u64 value; /* what was there */
	u64 end;   /* of the wait, as settle() has it */
	u64 until; /* see struct order */
	u64 then;
	u64 raced;  /* the other side is known */
	u64 shared; /* the processor itself has run text meanwhile: an interrupt, or another task */
	struct party party;
};

/* The way that a task has gone behind a load that races: whether anybody uses the value. */
struct trail {
	u64 at;    /* the load */
	u64 stack; /* of the task */
	u64 count;
	u64 steps[NR_STEPS];   /* the instructions behind it that lookers have seen */
	u64 targets[NR_STEPS]; /* where those go that call what a register points to; else 0 */
};

/* Somebody has accessed 8 bytes. */
struct touch {
	u64 at;      /* the instruction; 0: this one is free */
	u64 word;    /* offset in RAM / 8 */
	u64 context; /* see running_context() */
	u64 flags;   /* INSN_* */
};

struct holds {
	u64 each_ns; /* each access waits for so long; 0: none does by itself */
	u64 nr_orders;
	u64 next_order; /* of those for each access, which are sorted by their numbers */
	u64 nr_faults;
	u64 faults[NR_FAULTS]; /* numbers of calls of functions that may fail, from 1 on */

	u64 accesses; /* and calls, before which a processor could wait */
	u64 calls;    /* of functions that may fail */
	u64 held;
	u64 torn;
	u64 timers;
	u64 digest;                             /* of all that was done */
	struct hold hold[MAX_CPUS * NR_LEVELS]; /* by processor and level */
	u64 passes[MAX_CPUS * NR_LEVELS]; /* the hold, plus 1, that it is about to end; see until */
	struct order orders[NR_ORDERS];
	u64 seen[NR_ORDERS];               /* how often the place of an order was reached */
	struct party parties[NR_FINDINGS]; /* of each finding: who waits */
	u8 places[NR_PLACES]; /* how often a place was held, by a hash of its address */
	u64 nr_trails;
	struct trail trails[NR_TRAILS];
	u64 touching;                     /* note touches */
	struct touch touches[NR_TOUCHES]; /* by a hash; those that find no room are left out */
};
#endif
