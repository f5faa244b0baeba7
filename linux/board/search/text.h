/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * What looks at the instructions of some text: of modules, of BPF programs, of chosen functions of
 * the kernel.
 *
 * Each instruction that accesses memory or calls has a row, which says how. Before it begins the
 * *lookers* are called with it, one after the other. A looker may have the instruction left: to let
 * other processors run first, to leave a call out, or to call another function.
 */
#include "../board.h"

#define NR_TEXTS 256
#define NR_FUNCTIONS 2048
#define NR_FINDINGS 256
#define NR_COUNTED 16384 /* findings that are only counted: a power of two */
#define FINDING_STACK 48 /* words of a stack that may be return addresses */
#define NR_LEFT 4        /* instructions that a processor has left, one in an interrupt of another */
#define NR_BEHIND 64     /* calls whose returns are awaited */

/* flags of a row */
#define INSN_READS 1
#define INSN_WRITES 2
#define INSN_LOCKED 4       /* by a prefix, or as xchg is */
#define INSN_CALLS 8        /* or jumps to a function of the table */
#define INSN_ON_STACK 0x10  /* at a constant distance from the stack pointer */
#define INSN_STRING 0x20    /* the operands are at rsi (reads) and rdi (writes) */
#define INSN_BEHIND 0x40    /* stands behind a call */
#define INSN_TAIL 0x80      /* a jump that is a call */
#define INSN_INDIRECT 0x100 /* it calls or jumps to where a register or memory says */
#define INSN_PER_CPU 0x200  /* its operand is relative to gs */
#define INSN_BITS 0x400     /* of an array of bits, numbered by a register: reg */
#define INSN_SEEN 0x800     /* it was about to begin */
#define INSN_COMPARES 0x1000 /* it uses what it reads at once */
#define INSN_LEAVES 0x2000  /* returns */
#define INSN_NO_TRACK 0x4000 /* an indirect jump that may land anywhere */
#define INSN_REPEATS 0x8000 /* a string instruction, as often as rcx says */
#define INSN_HOOKED                                                                          \
	(INSN_READS | INSN_WRITES | INSN_CALLS | INSN_BEHIND)

/* more of a row */
#define MORE_CANARY 1 /* it loads, stores or compares the canary of its function's stack */
#define MORE_DECIDES 2 /* something depends on what it reads, which is not only copied */
#define MORE_LOADS 4   /* reads into a register, and does nothing else */
#define MORE_TESTS 8   /* compares registers: reg and scale */
#define MORE_JUMPS 0x10 /* jumps to where disp says, behind it */
#define MORE_BEGINS 0x20 /* here begins a function whose variables on the stack are known */
#define MORE_ENDS 0x40   /* such a function returns, or jumps elsewhere */
#define MORE_LOCAL 0x80  /* it may access such a variable, at a constant distance */
#define MORE_SETS 0x100    /* on arm64: a register, reg */
#define MORE_ADDS 0x200    /* and it is a sum, of base and index */
#define MORE_TASK 0x400    /* or the task that runs */
#define MORE_CPU 0x800     /* or where the data of the processor lie */
#define MORE_OF_TASK 0x1000 /* its operand is the task that runs */
#define MORE_ACQUIRES 0x2000 /* an atomic access that others do not come before */
#define MORE_TAKES 0x4000 /* such a one takes a spinlock, if that is 0 */

/* bits of scale on arm64: the index has 32 bits */
#define WORD_INDEX 0x40
#define SIGNED_INDEX 0x80

#define REG_NONE 255
#define REG_IP 254

/* lookers, in their order: bits of texts.on */
#define LOOK_HOLD 1
#define LOOK_FAULT 2
#define LOOK_MEMORY 4
#define LOOK_LOCKS 8
#define LOOK_IBT 16 /* by branch.c, for all text */

/* kinds of functions */
#define FN_OTHER 0
#define FN_ALLOC 1
#define FN_FREE 2
#define FN_COPY 3
#define FN_STRING 4
#define FN_LOCK 5
#define FN_UNLOCK 6
#define FN_SLEEPS 7
#define FN_FORGET 8
#define FN_CACHE 9   /* makes a cache of objects */
#define FN_UNCACHE 10 /* destroys one */
#define FN_SIZE 11         /* asks how large an object is */
#define FN_FREE_LATER 12   /* frees what may still be read */
#define FN_USES 13         /* uses what to and source point to */

/* how: more of a function of its kind */
#define HOW_PAGE 1     /* it returns, frees or takes over a struct page */
#define HOW_ORDER 2    /* FN_ALLOC: the size is 4096 << the argument, or 4096 */
#define HOW_STRING 4   /* that of a string, with its end */
#define HOW_ARRAY 8    /* times another argument */
#define HOW_CACHE 0x10 /* of the objects of a cache */
#define HOW_ENLARGE 0x20  /* the argument may be larger */
#define HOW_REDIRECT 0x40 /* another function has to be called for that: texts.kmalloc */
#define HOW_PAGES 0x80    /* whole pages */
#define HOW_AGAIN 0x100   /* it gives an object another size */
#define HOW_READS 0x200   /* FN_COPY, FN_STRING: it writes nothing */
#define HOW_JOINS 0x400   /* it writes behind a string */
#define HOW_FORMATS 0x800 /* it returns how much it has written */
#define HOW_MUTEX 0x1000  /* FN_LOCK: what it takes */
#define HOW_RWSEM 0x2000
#define HOW_SPIN 0x4000
#define HOW_RWLOCK 0x8000
#define HOW_SHARED 0x10000
#define HOW_TRIES 0x20000 /* and returns whether it has */
#define HOW_IRQ 0x40000   /* without interrupts */
#define HOW_BH 0x80000    /* without soft interrupts */
#define HOW_FAILS 0x100000 /* and returns an error if it has not */
#define HOW_RAW 0x200000 /* FN_ALLOC: what it returns is not filled, unless flags have __GFP_ZERO */
#define HOW_TO_USER 0x400000 /* FN_COPY: a program can read it then */
#define HOW_INLINE 0x2000000 /* FN_LOCK: who calls it has tried in line before */
#define HOW_CLEARS 0x800000 /* it clears what it should have written, if it fails */
#define HOW_LIST 0x1000000 /* FN_FORGET: of pages that are linked by lru; with HOW_ARRAY: a folio_batch */

/* in c of a finding: from this bit on the number of a variable on the stack, plus 1 */
#define HOW_LOCAL 8

/* kinds of findings */
#define FOUND_OUT_OF_BOUNDS 1
#define FOUND_USE_AFTER_FREE 2
#define FOUND_DOUBLE_FREE 3
#define FOUND_INVALID_FREE 4
#define FOUND_STACK 5
#define FOUND_LEAK 6
#define FOUND_UNINITIALIZED 7
#define FOUND_GLOBAL 8
#define FOUND_LOCK_ORDER 9
#define FOUND_SLEEP 10
#define FOUND_IBT 11
#define FOUND_RACE 12
#define FOUND_CHANGED 13
#define FOUND_TEAR 14
#define FOUND_FAULT 15
#define FOUND_LOCK_IN_IRQ 16

#ifndef __ASSEMBLER__

/* An instruction; one row for each byte of text, of which those at first bytes are used. */
struct insn {
	u16 flags;
	u8 size;  /* 0: not decoded */
	u8 bytes; /* that it accesses */
	u8 base;  /* registers; REG_NONE, REG_IP */
	u8 index;
	u8 scale;
	u8 reg; /* of INSN_BITS: the number of the bit is in it; of others: what is moved */
	int32_t disp;
	u16 function; /* that it calls: its index in functions; 0: none of these */
	u16 more;     /* MORE_* */
};

struct text {
	u64 first;
	u64 size; /* 0: it is gone */
	u64 insns;
	u64 owner; /* the host's name for it */
};

/* A function of the kernel that lookers know. Arguments are numbers from 0; NO_ARGUMENT: none. */
#define NO_ARGUMENT 255
struct function {
	u64 address;
	u32 kind;      /* FN_* */
	u32 how;       /* HOW_* */
	u8 to;         /* argument: what it writes, frees, locks */
	u8 source;     /* what it reads */
	u8 size;       /* how many bytes */
	u8 fails;      /* it may fail, and returns error then */
	u8 fails_as;   /* or this argument, unless that is NO_ARGUMENT */
	u8 entry_kind; /* FN_*: what it does, whoever calls it; 0: that is not looked at */
	u8 flags;      /* argument: those of an allocation */
	u8 bytes;      /* that it uses of to and source at least */
	int64_t error;
	u64 calls; /* those that text has made */
};

struct finding {
	u64 kind;
	u64 at;    /* the instruction */
	u64 other; /* another one, as of the other side of a race */
	u64 count; /* how often it was found */
	u64 cpu;
	u64 task;
	u64 pid; /* of that task, and its name */
	u64 comm[2];
	u64 block;
	u64 now;
	u64 a, b, c;              /* of the kind */
	u64 object;               /* index in objects, plus 1; 0: none */
	u64 stack[FINDING_STACK]; /* the words above the stack pointer */
};

/* One of those for which there was no room. */
struct counted {
	u64 kind; /* 0: this one is free */
	u64 at;
	u64 other;
	u64 block;
};

/* An instruction that a processor has left and is to come back to. */
struct left {
	u64 at;
	u64 sp;
	u64 looker; /* that has left it, plus 1; 0: none */
};

struct behind {
	u64 at; /* where the call returns to; 0: this one is free */
	u64 sp; /* as it will be there */
	u64 looker;
	u64 function;
	u64 from; /* the call */
	u64 data[5];
};

struct texts {
	u64 on;      /* LOOK_* */
	u64 current; /* the offset, in a processor's data, of the task that runs */
	u64 pid;     /* the offsets of number and name in a task */
	u64 comm;
	u64 canary;           /* of the stack's canary there */
	u64 count_of_preempt; /* and of the depth of sections without preemption; NEVER */
	u64 direct;           /* address of the kernel's mapping of all memory; 0: not known */
	u64 kernel;           /* the kernel's text, its size, and where it lies in RAM: */
	u64 kernel_size;      /* set if branches are looked at */
	u64 kernel_at;
	u64 nr_texts;
	u64 nr_functions;
	u64 nr_findings;
	u64 findings_lost; /* not even counted */
	u64 instructions;  /* that were looked at */
	u64 last;          /* index of the text that was found last */

	/* the instruction that was looked at last, for a debugger stops there, too */
	u64 memo_at;
	u64 memo_block;
	u64 memo_cpu;
	u64 memo_stop; /* STOP_*; 0: it was not left */

	/* what to do where the board has stopped with STOP_ACT */
	void (*act)(struct board *);
	u64 act_ip;
	u64 act_value;
	u64 act_sp; /* the stack pointer */

	u64 kmalloc; /* address of the function for HOW_REDIRECT */
	u64 shadow;  /* struct shadow * */
	u64 locks;   /* struct locks * */
	struct left left[MAX_CPUS][NR_LEFT];
	struct behind behind[NR_BEHIND];
	struct text texts[NR_TEXTS];
	struct function functions[NR_FUNCTIONS];
	struct finding findings[NR_FINDINGS];
	struct counted counted[NR_COUNTED]; /* by a hash */
	struct branch_site branches[1 << BRANCH_SITE_BITS];
};

/* What a looker sees. */
struct look {
	const struct insn *insn;
	u64 at;   /* the instruction */
	u64 addr; /* of its operand in memory; of a string's, what it writes, or else reads */
	u64 bytes;
	u64 phys;                /* offset in RAM of addr, or NEVER */
	struct function *callee; /* NULL: none of the table */
	u64 back;                /* where the call returns to */
	u64 sp;                  /* and the stack pointer there */
	int looker;              /* its number */
	bool again;              /* it has left this instruction, which is about to begin */
};
#endif
