/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Kernel probes, as the kernel's documentation describes them, jprobes, fault and break
 * handlers of older kernels included. The structures are read and written by
 * engine/guest_api.py; src/kernel/kprobes.c checks the offsets.
 */
#pragma once
#include <linux/types.h>

/* The address goes to _kprobe_blacklist: no probes in the function. */
#define NOKPROBE_SYMBOL(fn) \
	static unsigned long __used __section("_kprobe_blacklist") \
	_kbl_addr_##fn = (unsigned long)fn

#ifdef MODULE
#include <linux/bug.h>
#include <linux/kallsyms.h>
#include <linux/kdebug.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#else
#include <asm/ptrace.h>
#endif
#include <asm/kprobes.h>

struct kprobe;
struct kretprobe;
struct kretprobe_instance;
typedef int (*kprobe_pre_handler_t)(struct kprobe *, struct pt_regs *);
typedef void (*kprobe_post_handler_t)(struct kprobe *, struct pt_regs *, unsigned long flags);
typedef int (*kprobe_fault_handler_t)(struct kprobe *, struct pt_regs *, int trapnr);
typedef int (*kprobe_break_handler_t)(struct kprobe *, struct pt_regs *);
typedef int (*kretprobe_handler_t)(struct kretprobe_instance *, struct pt_regs *);

struct kprobe {
	struct hlist_node hlist;
	struct list_head list;
	unsigned long nmissed; /* hits that could not be handled */
	kprobe_opcode_t *addr;
	const char *symbol_name;
	unsigned int offset;
	kprobe_pre_handler_t pre_handler; /* non-zero: it has set up regs; go on at regs->ip */
	kprobe_post_handler_t post_handler;
	kprobe_fault_handler_t fault_handler; /* 1: the fault is handled */
	kprobe_break_handler_t break_handler; /* 1: the breakpoint in a handler is handled */
	kprobe_opcode_t opcode;
	struct arch_specific_insn ainsn;
	u32 flags;
};
#define KPROBE_FLAG_GONE 1
#define KPROBE_FLAG_DISABLED 2
#define KPROBE_FLAG_OPTIMIZED 4
#define KPROBE_FLAG_FTRACE 8
#define KPROBE_FLAG_ON_FUNC_ENTRY 16

static inline int kprobe_gone(struct kprobe *p) { return p->flags & KPROBE_FLAG_GONE; }
static inline int kprobe_disabled(struct kprobe *p)
{
	return p->flags & (KPROBE_FLAG_DISABLED | KPROBE_FLAG_GONE);
}

struct kretprobe {
	struct kprobe kp;
	kretprobe_handler_t handler;
	kretprobe_handler_t entry_handler; /* non-zero: this call is not to be hooked */
	int maxactive;                     /* 0 or less: the default */
	int nmissed;                       /* calls that found no free instance */
	size_t data_size;
};
#define KRETPROBE_MAX_DATA_SIZE 4096

/* The record that engine/runtime keeps of a hooked call. */
struct kretprobe_instance {
	struct kretprobe_instance *next;
	void *rethook;
	kprobe_opcode_t *ret_addr; /* not yet known in the entry handler */
	void *fp;                  /* its place on the stack */
	struct task_struct *task;
	void *func;
	struct kretprobe *rp; /* NULL once it is unregistered */
	char data[];
};

static inline struct kretprobe *get_kretprobe(struct kretprobe_instance *ri) { return ri->rp; }
static inline unsigned long get_kretprobe_retaddr(struct kretprobe_instance *ri)
{
	return (unsigned long)ri->ret_addr;
}

struct jprobe {
	struct kprobe kp;
	void *entry; /* has the prototype of the probed function; ends in jprobe_return() */
};
#define JPROBE_ENTRY(handler) (handler)

int register_kprobe(struct kprobe *p);
void unregister_kprobe(struct kprobe *p);
int register_kprobes(struct kprobe **kps, int num);
void unregister_kprobes(struct kprobe **kps, int num);
int enable_kprobe(struct kprobe *kp);
int disable_kprobe(struct kprobe *kp);
int register_kretprobe(struct kretprobe *rp);
void unregister_kretprobe(struct kretprobe *rp);
int register_kretprobes(struct kretprobe **rps, int num);
void unregister_kretprobes(struct kretprobe **rps, int num);
int register_jprobe(struct jprobe *p);
void unregister_jprobe(struct jprobe *p);
int register_jprobes(struct jprobe **jps, int num);
void unregister_jprobes(struct jprobe **jps, int num);
void jprobe_return(void);
struct kprobe *get_kprobe(void *addr);
struct kprobe *kprobe_running(void);
/* For the calling CPU; a copy made by the call, so changing it changes nothing. */
struct kprobe_ctlblk *get_kprobe_ctlblk(void);
struct kprobe **__current_kprobe(void);
#define current_kprobe (*__current_kprobe())
struct task_struct;
void kprobe_flush_task(struct task_struct *tk);

static inline int enable_kretprobe(struct kretprobe *rp) { return enable_kprobe(&rp->kp); }
static inline int disable_kretprobe(struct kretprobe *rp) { return disable_kprobe(&rp->kp); }
static inline int enable_jprobe(struct jprobe *jp) { return enable_kprobe(&jp->kp); }
static inline int disable_jprobe(struct jprobe *jp) { return disable_kprobe(&jp->kp); }
