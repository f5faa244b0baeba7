/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The agreement of the guest kernel and the Python side. scripts/asm-offsets makes
 * base/abi.py of it and of other headers, which says the same in Python.
 */
#pragma once
#include <generated/autoconf.h>

#define KPFS_NR_CPUS CONFIG_NR_CPUS

/* Memory map (one page table for all tasks; data pages NX, text pages not writable). */
#define KPFS_TEXT_BASE 0xffffffff81000000UL   /* vmlinux, 2 MiB pages: text RX, then data NX */
#define KPFS_MODULE_BASE 0xffffffffc0000000UL /* modules, runtime image, engine slots and data */
#define KPFS_MODULE_TEXT KPFS_MODULE_BASE
#define KPFS_MODULE_TEXT_END 0xffffffffff000000UL
#define KPFS_DIRECT_MAP 0xffff888000000000UL  /* all RAM, NX */
/* Kernel stacks: the upper half of each stride, and nothing below it. */
#define KPFS_STACK_BASE 0xffffc90000000000UL
#define KPFS_STACK_STRIDE 0x8000UL
#define KPFS_STACK_SIZE 0x4000UL
#define KPFS_STACKS 1024
/* The first are the idle tasks', those that follow each CPU's for double faults. */
#define KPFS_STACKS_DF KPFS_NR_CPUS
#define KPFS_STACKS_TASKS (2 * KPFS_NR_CPUS)
#define KPFS_USER_BASE 0x00007f0000000000UL   /* KPFS_USER_SIZE per task slot, NX, user */
#define KPFS_USER_SIZE 0x10000UL              /* strings grow from +0, buffer at +0x4000 */
#define KPFS_USER_SLOTS 512                   /* task slots mapped at KPFS_USER_BASE */
#define KPFS_USER_BUFFER 0x4000UL
#define KPFS_USER_BUFFER_SIZE 0xc000UL

/* Segments: no ring 3; the caller's task enters system calls by a plain call. */
#define KPFS_CS 0x10
#define KPFS_DS 0x18

/*
 * Hypercalls: "out %eax,$reason". Those marked * stop the run and so stand at the end of
 * a translation block (a "jmp 1f; 1:" follows). 0x20 to 0x5f belong to the engine.
 */
#define HC_IDLE 0x10     /* * nothing to do on this CPU until an interrupt */
#define HC_YIELD 0x11    /* * credit used up: let the next CPU run */
#define HC_HOST_OP 0x13  /* * eax: pid; a file of the mount is read or written: run its code */
#define HC_PANIC 0x14    /* * the kernel is dead */
#define HC_EXIT 0x17     /* eax: pid; the task is gone */
#define HC_CLOCK 0x18     /* the clock word is to be brought up to date: eax says why */
#define HC_API 0x60      /* kprobes API of modules: arguments in pcpu->api */
#define API_FLAGS 3      /* of its words, the caller's flags: the call itself is made with IF off */

#define CLOCK_READ 0 /* it is about to be read, where it is the host's */
#define CLOCK_STEP 1 /* one more of the host's operations begins */
#define CLOCK_LOOK_NSEC 100 /* added to a virtual clock by each look at it */

/* Vectors that Python injects at an instruction boundary with IF set. */
#define VEC_TIMER 0xec      /* asm_sysvec_apic_timer_interrupt */
#define VEC_RESCHEDULE 0xfd /* asm_sysvec_reschedule_ipi: look at the tasks to be woken */
#define VEC_NET 0x22        /* asm_common_interrupt: the loopback device */

/* A request of the host to a task: struct task_struct.req. */
#define REQ_NONE 0
#define REQ_SYSCALL 1 /* nr, args: do_syscall_64() */
#define REQ_CALL 2    /* args[0] = function, args[1..6] = its arguments */
/*
 * args[1] requests REQ_SYSCALL at args[0], one after the other, up to the first that fails;
 * ret is the last one's, and nr how many were begun. Python may make args[1] less meanwhile.
 */
#define REQ_SYSCALLS 3
#ifndef __ASSEMBLER__
struct kpfs_request {
	unsigned long kind; /* REQ_*; REQ_NONE again when finished */
	unsigned long nr;
	unsigned long args[7];
	long ret;
};

/*
 * A question to a file of the mount: struct task_struct.host_op, at HC_HOST_OP. Python sets ret
 * (and pos, cookie), or leaves a request in task->nested, which is served at once and followed by
 * another HC_HOST_OP.
 */
#define HOST_OPEN 1    /* path, flags (O_*), mode; Python sets cookie, kept in the open file */
#define HOST_READ 2    /* count, pos; Python puts up to HOST_DATA_SIZE bytes of its answer at data */
#define HOST_WRITE 3   /* count, pos; up to HOST_DATA_SIZE bytes from user memory at data */
#define HOST_RELEASE 4
#define HOST_DATA_SIZE 4096
#define HOST_NO_PWRITE 0x100000000UL /* Python adds it to the flags of a HOST_OPEN: without FMODE_PWRITE */
#define HOST_NOT_INHERITED 0x200000000UL /* likewise: children of the task do not get the file */
struct kpfs_host_op {
	unsigned long kind;
	unsigned long cookie;
	unsigned long flags;
	unsigned long mode;
	unsigned long count;
	long pos;           /* read and write: new position afterwards, set by Python */
	unsigned long data; /* kernel address of the bounce page */
	unsigned long path; /* kernel address of the path from the mount's root, NUL ended */
	long ret;
};

/* The printk ring: the object kpfs_log. Records are contiguous; len 0: go on at index 0. */
struct kpfs_log_record {
	unsigned long ts_nsec;
	unsigned long seq;
	unsigned short len; /* of the record, header included, a multiple of 8 */
	unsigned short text_len;
	unsigned char facility;
	unsigned char level;
	unsigned short pad;
	char text[]; /* no newline, no NUL */
};
struct kpfs_log {
	unsigned long buf, size;            /* virtual address, bytes */
	unsigned long first_seq, first_idx; /* oldest record */
	unsigned long next_seq, next_idx;   /* the place of the next record */
};

/* clone3: Linux's struct clone_args (88 bytes) and then ours. */
struct kpfs_clone_args {
	unsigned long flags, pidfd, child_tid, parent_tid, exit_signal;
	unsigned long stack;      /* function the child runs; 0: it serves the host's requests */
	unsigned long stack_size; /* its argument */
	unsigned long tls;
	unsigned long set_tid;      /* user address of a 32-bit pid; in use: EEXIST */
	unsigned long set_tid_size; /* 1 with set_tid */
	unsigned long cgroup;
	unsigned long comm;    /* user address of a string; 0: the parent's */
	unsigned int uid, gid; /* ~0: the parent's */
};

/*
 * At %gs:0, one per CPU. Offsets are fixed; the rest of the kernel's per-CPU data follows.
 */
struct kpfs_pcpu {
	unsigned long self;         /* 0x00 */
	unsigned long current_task; /* 0x08 struct task_struct * */
	unsigned int cpu_number;    /* 0x10 */
	int preempt_count; /* 0x14 preempt 0xff, softirq 0xff00, hardirq 0xf0000, NMI 0xf00000 */
	int need_resched;  /* 0x18 */
	int credit;        /* 0x1c counted down at polls; HC_YIELD below 0; Python refills */
	unsigned long next_deadline; /* 0x20 ns of the next timer, ~0UL: none */
	unsigned long irq_stack_top; /* 0x28 */
	unsigned long api[8];        /* 0x30 HC_API: call number, arguments, result in api[0] */
	unsigned long this_cpu_off;  /* 0x70 this CPU's area minus __per_cpu_start */
	/* the debug registers, as x86 has them: guest/emu/debugreg.py */
	unsigned long dr[4], dr6, dr7;
	unsigned long debug_stack_top; /* #DB is handled there */
	int debug_off;                 /* in #DB: nothing is watched; set by Python */
};

/* Given to start_kernel(); physical memory is KPFS_DIRECT_MAP based. */
struct kpfs_boot_params {
	unsigned long nr_cpus;
	unsigned long free_start; /* physical range for the page allocator */
	unsigned long free_end;
	unsigned long quiet;    /* the clock is virtual */
	unsigned long workload; /* init starts its background programs */
	unsigned long clock; /* virtual address of the clock word: ns since boot, kept by Python */
	unsigned long wakeups;   /* virtual address of struct kpfs_wakeups[nr_cpus] */
	unsigned long boot_time; /* seconds since 1970 */
	unsigned long config;    /* KPFS_CONFIG_... */
};

/* The part of the kernel's configuration that is decided at boot. */
#define KPFS_CONFIG_PREEMPTION 1
#define KPFS_CONFIG_MODULES 2
#define KPFS_CONFIG_MODULE_UNLOAD 4
#define KPFS_CONFIG_LEGACY_SYMBOLS 8

/* Tasks to wake at the next VEC_RESCHEDULE, written by Python, for each CPU: they are to run there. */
#define KPFS_WAKEUPS_MAX 24
struct kpfs_wakeups {
	unsigned long nr;
	unsigned long task[KPFS_WAKEUPS_MAX]; /* struct task_struct * */
};

/* Offsets Python needs, exported as the object kpfs_guest_info. */
struct kpfs_guest_info {
	unsigned long magic; /* 'kpfsinfo' */
	unsigned int task_pid, task_uid, task_comm, task_req, task_user_base;
	unsigned int task_cpu, task_next, task_rethooks, task_untouched, task_size;
	unsigned int task_nested, task_host_op; /* struct kpfs_request, struct kpfs_host_op */
	unsigned int task_on_rq, task_quiescent, task_files, files_id;
	unsigned long percpu_base, percpu_size; /* CPU n's %gs is percpu_base + n * percpu_size */
	unsigned long log;                      /* struct kpfs_log */
	unsigned long init_task;                /* swapper/0; task_next leads round all tasks */
};
#endif
