/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The engine's own code inside the guest handles the hits of probes and writes trace records.
 * This header has the structures by which it and the Python beside it know one another: Python
 * fills in most of them, and the code here reads them at each hit. Of the kernel that all this
 * runs in, the code knows nothing but what struct kp_config says.
 */
#pragma once

/*
 * Hypercalls. The argument is the number of the CPU, everything else is in the mail of its
 * struct kp_cpu, as said beside each. Python answers at once; none of them stops the run.
 */
#define HC_PY_HANDLER 0x20 /* mail: handler, regs; result in mail_ret */
#define HC_PY_POST 0x21    /* mail: handler, regs */
#define HC_PY_ENTRY 0x22   /* mail: node, regs, rethook; result in mail_ret */
#define HC_PY_RETURN 0x23  /* mail: node, regs, rethook */
#define HC_PY_BREAK 0x25   /* mail: handler, regs; result in mail_ret */
#define HC_ORPHAN 0x24     /* mail: regs; a return to the trampoline that no node is for */
#define HC_TRIGGER 0x31    /* mail: trigger's id; mail_ret: a stack trace is wanted */
#define HC_STACK 0x32      /* mail: ip, sp, bp; mail_ret: how many addresses are in stack now */
#define HC_FN_PROBE 0x33 /* mail: function, struct kp_array *; mail_ret: write a stack trace */
#define HC_FOLLOW_FORK 0x34 /* mail: pid of a task, of one that it has made; or 0, of one that is gone */

/* "int $TRAP_ENTRY" in a detour buffer calls the Python handlers of the probe it belongs to. */
#define TRAP_ENTRY 0x81

#define FLAGS_IF 0x200UL
#define KP_CS 0x10
#define KP_SS 0x18

/* Ways into a site: the kind of struct kp_cpu. */
#define KP_INT3 0
#define KP_FTRACE 1
#define KP_OPT 2 /* by jump: a changed ip and the return value are ignored */

/*
 * Marks of what lite.S and krets.S leave to engine/arch/x86, which copies their code for each
 * site. An operand that begins with LITE_BASE is replaced by what its mark asks for: the address
 * of the site, the structure that a handler works for (struct kp_event or struct kp_rethook), the
 * probed address, the distance to where execution goes on, or the handler's struct kp_handler. A
 * distance to code of the runtime (LITE_REL) changes with the place of the copy. The table of all
 * these places has LITE_BASE at its head and ends at the first word that is not marked.
 */
#define LITE_BASE 0x12340000
#define LITE_SITE 1
#define LITE_DATA 2
#define LITE_ADDR 3
#define LITE_CONT 4
#define LITE_REL 5
#define LITE_HANDLER 6
#define LITE_MARK 0x6b710000

/* Flags of struct kp_site. */
#define SITE_SINGLESTEP 1 /* the slot ends in a trap: current_kprobe stays set until then */
#define SITE_POST 2       /* there are post_handlers */
#define SITE_AGGR 4       /* it is an aggr_kprobe's */

#define HANDLER_DISABLED 1 /* of kp_handler.flags */
#define KP_HIT_ACTIVE 1
#define NMI_CONTEXT 0x110000 /* NMI and hard interrupt count, as a breakpoint trap has */
#define KP_HIT_SS 2
#define KP_MAX_STACK_SIZE 64
#define KP_THREAD_SIZE 0x4000
#define KP_PAGE_SIZE 4096
#define KP_PAGE_DATA 4080

#ifndef __ASSEMBLER__
typedef unsigned long u64;
typedef long s64;
typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned char u8;

/* x86-64's, from low to high addresses. */
struct pt_regs {
	u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
	u64 orig_ax, ip, cs, flags, sp, ss;
};

/* The places in the kernel of values for a record, written by the engine when it starts. */
struct kp_config {
	u32 gs_current; /* %gs offset of the current task pointer */
	u32 gs_cpu;     /* %gs offset of the CPU number (32 bits) */
	u32 gs_preempt; /* %gs offset of the preempt count (32 bits, Linux's layout) */
	u32 gs_resched; /* %gs offset of a 32-bit word, non-zero for need-resched; ~0: none */
	u32 task_pid;   /* offsets in the task structure */
	u32 task_comm;
	u32 task_rethooks;  /* a word of the task for its list of return-probe nodes */
	u32 task_untouched; /* two words: where user memory begins and ends that is not in yet */
	u32 clock_step;     /* ns that the clock advances with each record */
	u32 cmdline_mask;
	u64 clock;    /* address of the clock word, ns since boot */
	u64 cpus;     /* struct kp_cpu[] */
	u64 cmdlines; /* struct kp_cmdline[cmdline_mask + 1] */
};

/* One probed address, an entry of kprobe_table; 64 bytes. */
struct kp_site {
	u64 addr;
	u64 cont; /* where to go on when the handlers are done: slot, displaced code, nop + 5 */
	u64 flags;
	u64 first; /* struct kp_handler *, newest first */
	u64 hits;  /* entered, missed ones too */
	u64 pad0;
	u64 id; /* the engine's */
	u64 pad1;
};

/* One registered struct kprobe, 128 bytes. */
struct kp_handler {
	u64 next; /* next at this address, 0 ends */
	u64 fn;   /* int fn(arg, struct pt_regs *); 0: no pre_handler */
	u64 flags;
	u64 nmissed;
	u64 pad0;
	u64 data;     /* struct kp_event *, struct kp_rethook * ... */
	u64 kp;       /* a module's struct kprobe, 0 if none */
	u64 id;       /* the engine's index */
	u64 post_fn;  /* void fn(user, struct pt_regs *, u64 flags); 0: none */
	u64 arg;      /* the module's struct kprobe if fn is the module's, else this one */
	u64 user;     /* a module's struct kprobe, else this one */
	u64 break_fn; /* int fn(user, struct pt_regs *); 0: none */
	u64 pad1;
	u64 fault_fn; /* int fn(user, struct pt_regs *, int trapnr); 0: none */
	u64 pad2;
	u64 pad;
};

/* A kprobe event, as much of it as its handler needs; 64 bytes. */
#define EVENT_RECORD 1UL /* write a record (the event is enabled for trace) */
#define EVENT_RETURN 2UL /* record is {func, ret_ip}, else {ip} */
#define EVENT_SYSCALL 4UL /* written with preemption disabled once more than the caller knows */
#define EVENT_SIMPLE (1UL << 63) /* of nhit: EVENT_RECORD, and no prog, filter, files */
struct kp_event {
	u64 flags;
	u64 type;   /* common_type */
	u64 nhit;   /* and EVENT_SIMPLE */
	u64 size;   /* bytes of the record's fixed part, common header included */
	u64 prog;   /* fetch instructions, 0: none */
	u64 filter; /* filter program, 0: none */
	u64 files;  /* struct kp_file *, where EVENT_RECORD does not say all; it is not set then */
	u64 pad;
};

/*
 * A set of numbers, none of which is 0: a hash table with open addressing. It has mask + 1
 * places, and some of them are always free, so that a search comes to an end.
 */
struct kp_hash {
	u64 mask;
	u64 key[];
};
#define KP_HASH_MULTIPLIER 0x9e3779b97f4a7c15UL
#define KP_HASH(key) (((key) * KP_HASH_MULTIPLIER) >> 32)

/* A trigger: a command that is obeyed when an event happens; 64 bytes. */
#define TRIGGER_POST 1UL /* to be obeyed when the record is written */
struct kp_trigger {
	u64 next;
	u64 filter;
	u64 flags;
	u64 id; /* the engine's */
	u64 pad[4];
};

/* The wishes of one trace array for an event; 64 bytes. Kernel: struct trace_event_file */
#define FILE_RECORD 1UL        /* enabled, and not soft-disabled */
#define FILE_TRIGGER_COND 2UL  /* a trigger needs the record */
struct kp_file {
	u64 next; /* the event in the next array */
	u64 flags;
	u64 array; /* struct kp_array * */
	u64 filter;
	u64 triggers; /* struct kp_trigger *, newest first */
	u64 event;    /* the kernel's, of an event whose records the kernel makes for one file: */
	u64 begin;    /* kp_file_begin, */
	u64 commit;   /* kp_file_event; all three 0 until it has asked for the file */
};

/* A trace array: its ring buffers and what its function tracer does; 256 bytes. */
#define ARRAY_STACKTRACE 1UL      /* a stack trace behind each record of an event */
#define ARRAY_FUNC_STACKTRACE 2UL /* and of a function */
struct kp_array {
	u64 ring[8]; /* struct kp_ring * of each CPU */
	u64 flags;
	u64 pids;    /* struct kp_hash * of pid + 1: events of those only; 0: of all */
	u64 no_pids; /* events of all but those */
	u64 fn_next; /* the next array with a function tracer */
	u64 fn_hash; /* functions that it traces; 0: all that are patched */
	u64 fn_pids;
	u64 fn_no_pids;
	u64 fn_probes;     /* struct kp_hash of functions with commands; 0: none */
	u64 fn_probe_next; /* the next array with such */
	u64 pad[15];
};

/* A return probe. Nodes that no call uses hang on its free list; 128 bytes. */
#define RETHOOK_DISABLED 1UL /* unregistered: no handler is called any more */
struct kp_rethook_node;
struct kp_rethook {
	u64 free;     /* struct kp_rethook_node *, linked by next */
	u64 entry_fn; /* long fn(node, regs); non-zero: this call is not probed; 0: none */
	u64 ret_fn;   /* long fn(node, regs); 0: none */
	u64 nmissed;  /* no free node */
	u64 data;     /* struct kp_event * ... */
	u64 flags;
	u64 kp; /* a module's struct kretprobe, 0 if none */
	u64 id;
	u64 event; /* the kp_event that a return is for and no one else; else kp_no_event */
	u64 site;  /* struct kp_site * of the last hit: current_kprobe of the handler */
	u64 pad0[2];
	u64 long_way;  /* an entry is not simple: there are flags or an entry_fn */
	u64 maxactive; /* nodes in all */
	u64 pad[2];
};
struct kp_rethook_node {
	u64 next; /* in the task's list, or in the free list */
	u64 rethook;
	u64 ret_addr; /* 0 until the return address has been taken */
	u64 frame;    /* stack address that held the return address */
	u64 task;
	u64 func;   /* address probed */
	u64 rp;     /* a module's struct kretprobe, 0 if none */
	u64 data[]; /* data_size bytes */
};

/*
 * A copy of what the entry function of a jprobe must leave as it was, one for each CPU. The
 * kernel's stacks are aligned to their size, which tells how much of the stack there is to save.
 */
struct kp_jprobe {
	struct pt_regs regs;
	u64 size; /* bytes in stack; 0: no entry function is running */
	u64 stack[KP_MAX_STACK_SIZE / 8];
};

/* Offsets in a module's struct kprobe and kretprobe. */
#define KPROBE_NMISSED 32
#define KRETPROBE_NMISSED 148

/* The state of a CPU; 256 bytes. */
#define KP_IDLE 0UL /* Linux's names and values; KP_HIT_ACTIVE, KP_HIT_SS: above */
#define KP_REENTER 4UL
#define KP_HIT_SSDONE 8UL
struct kp_cpu {
	u64 current_kprobe; /* struct kp_site *, 0: none */
	u64 status;
	u64 prev_kprobe; /* saved while REENTER */
	u64 prev_status;
	u64 mail[4]; /* arguments of a hypercall; mail[2]: ip for kp_post_entry */
	u64 mail_ret;
	u64 ring;           /* struct kp_ring * */
	u64 orphan_returns; /* trampoline reached with no node */
	u64 instance;       /* struct kp_handler * whose handler runs. Kernel: kprobe_instance */
	u64 kind;           /* how current_kprobe was entered: KP_INT3 ... */
	u64 jprobe;         /* struct kp_jprobe * */
	u64 declined;       /* an address that traps once more, for no handler wanted it */
	u64 in_fault;       /* a fault_handler is running */
	u64 stack;          /* room for KP_STACK_MAX addresses of a stack trace */
	u64 regs;           /* struct pt_regs * of the hit whose handlers run */
	u64 pad[14];
};
#define KP_STACK_MAX 128

/*
 * The ring buffer of one CPU, in Linux's binary format. A page has a time stamp (u64), the
 * number of bytes used (u64, commit) and 4080 bytes of entries. An entry begins with a u32 of
 * two fields, type_len (5 bits) and time_delta (27 bits). If type_len is 1 to 28, that many
 * words of data follow; if it is 0, a u32 length that counts itself, and then the data; 29 is
 * padding; 30 extends the time by a u32 that holds delta >> 27.
 * The data begin with u16 type, u8 flags, u8 preempt_count and s32 pid; the event's fields
 * follow. What does not fit on a page starts the next one; there is no padding entry.
 *
 * The word place is all that lite.S keeps of the records it has put on the tail page: their
 * number << 32 | the low half of the address where the next one goes, which is never the first
 * place of a page. Whoever else looks at the ring adds these records to the tail page, to
 * entries and to bytes, and clears the word.
 */
struct kp_page {
	u64 time_stamp;
	u64 commit;
	u8 data[KP_PAGE_DATA];
};
#define RING_SLOW_CLOCK 2UL /* of on: with another clock than the usual one */
#define RING_FAR 4UL        /* of on: its pages are not in the top 2 GiB, as lite.S wants */
struct kp_ring {
	u64 pages; /* nr_pages * 4096 bytes */
	u64 nr_pages;
	u64 head;      /* oldest page with unread entries */
	u64 read;      /* offset into the head page's data of the first unread entry */
	u64 tail;      /* page being written */
	u64 last_ts;   /* of the newest entry */
	u64 entries;   /* ever written */
	u64 overrun;   /* entries lost with an overwritten page, unread */
	u64 consumed;  /* entries read by trace_pipe */
	u64 bytes;     /* unread */
	u64 on;        /* records are written: tracing_on; RING_SLOW_CLOCK, RING_FAR */
	u64 overwrite; /* 1: oldest lost, 0: newest lost (dropped counts) */
	u64 dropped;
	u64 scratch; /* KP_PAGE_SIZE bytes where a record is made that may not be wanted */
	u64 counter; /* with RING_SLOW_CLOCK: address of a word counted up with each record, or */
	u64 quantum; /* if not 0, what the usual clock's time is divided by */
	u64 place;   /* lite.S puts records here, 0: it does not */
	u64 offset;  /* its lead on the time since boot */
	u64 full;    /* the tail page takes no more: something did not fit, and all was full */
	u32 page_entries[]; /* unread entries on each page */
};

/* The name a pid had at its last record, at index pid & cmdline_mask. Kernel: saved_cmdlines */
struct kp_cmdline {
	u64 pid;
	u64 comm[2];
};

extern struct kp_config kp_config;
extern char arch_rethook_trampoline[];

/*
 * The values of struct kp_config are written straight into the instructions that need it, for a hit
 * runs many of them. The table kp_fixups has the distance to each operand and, with a mark,
 * the field of struct kp_config that belongs there; it ends at the first word without a mark.
 */
#define KP_FIXUP_MARK 0x6b700000
#define KP_FIXUP(size, operand)                       \
	"\n771:\t.pushsection .kp_fixups, \"a\"\n\t.long\t771b - " #size " - ., " \
	"0x6b700000 + %c" #operand "\n\t.popsection"
#define KP_FIELD(field) __builtin_offsetof(struct kp_config, field)

/* The value that an instruction loads whose operand, of size bytes, is a field. */
#define KP_LOAD(qualifier, insn, size, field)                                                        \
	({                                                                                           \
		u64 v_;                                                                              \
		asm qualifier(insn KP_FIXUP(size, 1) : "=r"(v_) : "i"(KP_FIELD(field)));             \
		v_;                                                                                  \
	})
/* The value of a 32-bit word in the per-CPU area, whose offset is a field. */
#define kp_gs32(field) KP_LOAD(volatile, "movl %%gs:0, %k0", 4, field)
/*
 * The value of a field itself: kp_const32() is for one of 32 bits, kp_top() for an address in
 * the top 2 GiB, kp_const64() for any other of 64 bits.
 */
#define kp_const32(field) KP_LOAD(, "movl $0x12345678, %k0", 4, field)
#define kp_top(field) KP_LOAD(, "movq $0x12345678, %0", 4, field)
#define kp_const64(field) KP_LOAD(volatile, "movabsq $0x123456789abcdef0, %0", 8, field)

static inline u64 kp_current(void)
{
	return KP_LOAD(volatile, "movq %%gs:0, %0", 4, gs_current);
}

static inline struct kp_cpu *kp_this_cpu(void)
{
	return (struct kp_cpu *)kp_top(cpus) + kp_gs32(gs_cpu);
}

static inline void kp_preempt_add(u32 n)
{
	asm volatile("addl %0, %%gs:0" KP_FIXUP(4, 1)
		     :
		     : "r"(n), "i"(KP_FIELD(gs_preempt))
		     : "memory", "cc");
}

/* The word of a task where its list of return probe nodes begins. */
static inline u64 *kp_task_rethooks(u64 task)
{
	return (u64 *)(task + kp_const32(task_rethooks));
}

/*
 * Ask Python and return its answer. The number of the CPU, in eax, says in whose mail the
 * arguments are.
 */
#define kp_ask(reason, ...)                                                                     \
	({                                                                                      \
		struct kp_cpu *c_ = kp_this_cpu();                                              \
		const u64 mail_[] = { __VA_ARGS__ };                                            \
		for (u32 i_ = 0; i_ < sizeof(mail_) / sizeof(*mail_); i_++)                     \
			c_->mail[i_] = mail_[i_];                                               \
		asm volatile("outl %%eax, %0" : : "N"(reason), "a"(kp_gs32(gs_cpu)) : "memory"); \
		c_->mail_ret;                                                                   \
	})
#endif
