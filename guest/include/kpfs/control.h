/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Questions of guest code to Python while the guest stands still (HC_API): the kprobes API, and
 * the part of loading a module that is not the kernel's own. guest/running/control.py serves them.
 */
#pragma once

/* engine/guest_api.py: (array of pointers, number of them). The kind: */
#define CTL_KPROBES 0x00
#define CTL_KRETPROBES 0x10
#define CTL_JPROBES 0x20
/* plus what to do with them: */
#define CTL_REGISTER 0
#define CTL_UNREGISTER 1
#define CTL_ENABLE 2
#define CTL_DISABLE 3
/* others of the API */
#define CTL_GET_KPROBE 0x30     /* (addr): the struct kprobe there, 0 */
#define CTL_KPROBE_RUNNING 0x31 /* (): the one being handled on this CPU, 0 */
#define CTL_OOPS 0x32           /* (): the task dies; whether it was handling a probe */
#define CTL_KPROBES_HANDLED 0x33 /* (): mask of the other CPUs that are handling a probe */
#define CTL_KPROBE_CTLBLK 0x34  /* (struct kprobe_ctlblk *): fill it in */

/* engine/trace/synth/synth_api.py: the API of trace events */
#define CTL_TRACE_GET_FILE 0x40 /* (const char *[]: instance, group, event): trace_event_file, -errno */
#define CTL_TRACE_PUT_FILE 0x41 /* (file) */
#define CTL_TRACE_SET_CLR 0x42  /* (struct kpfs_set_clr *) */
#define CTL_SYNTH_COMMAND 0x43  /* (const char *[]: command, event, struct module *) */
#define CTL_SYNTH_DELETE 0x44   /* (name) */
#define CTL_SYNTH_SIZE 0x45     /* (type): bytes of a field, 0: not known or of any length, -errno */
/* kpfs/backends/guest/root/event_dirs.py */
#define CTL_TRACE_DIR 0x48      /* (struct kpfs_trace_dir *, room): how many are to be done */

/* guest/loader/modules.py */
#define CTL_MODULE_LOAD 0x100  /* (user address, length): struct module *, or -errno */
#define CTL_MODULE_STATE 0x101 /* (mod, enum module_state): its notifiers outside the guest */
#define CTL_MODULE_FREE_INIT 0x102 /* (mod) */
#define CTL_MODULE_FREE 0x103  /* (mod): unlink and free */

/* guest/loader/modules.py and percpu.py: what modules take while they run */
#define CTL_SYMBOL_FIND 0x108  /* (struct kpfs_symbol *): 0, -ENOENT */
#define CTL_PERCPU_ALLOC 0x109 /* (size, align): address of the first CPU's copy, -ENOMEM */
#define CTL_PERCPU_FREE 0x10a  /* (address) */
/* kpfs/backends/guest/root/debugfs.py: what modules have there */
#define CTL_DEBUGFS_ADD 0x110    /* (struct kpfs_debugfs *) */
#define CTL_DEBUGFS_REMOVE 0x111 /* (dentry), which has nothing below it */

#define CTL_JUMP_LABEL 0x210 /* (struct jump_entry *, on): make its site a jump or a nop */

#define CTL_TRACEPOINT 0x212 /* (struct static_key *, on): it has one user more, or one less */

/* guest/emu/debugreg.py */
#define CTL_DEBUGREG 0x211 /* (): debug registers of some CPU have changed */

/* guest/running/backtrace.py */
#define CTL_STACK_TRACE 0x200 /* (struct kpfs_stack_trace *): addresses stored */

#ifndef __ASSEMBLER__
struct kpfs_stack_trace {
	unsigned long *store;
	unsigned long size, skip;
	const struct pt_regs *regs; /* NULL: the caller's own */
	/* not NULL: all addresses of text on the stack; is set to a mask of those of no frame */
	unsigned long *unsure;
};
struct kpfs_symbol {
	const char *name;
	/* set by Python: */
	unsigned long addr, gpl;
	struct module *owner; /* NULL: the kernel */
};
struct kpfs_set_clr {
	struct trace_array *tr;
	const char *system, *event; /* NULL: any */
	unsigned long enable;
};
struct kpfs_trace_dir {
	struct dentry *made;   /* set by its maker */
	struct dentry *remove; /* or, if it is NULL, make: */
	struct dentry *parent;
	void (*call)(void); /* or, if it is not NULL, call it */
	char name[64];
};
struct kpfs_debugfs {
	struct dentry *dentry;
	struct dentry *parent; /* NULL: the root */
	unsigned long mode;
	const char *name;
};
long kpfs_control(unsigned long nr, unsigned long a, unsigned long b);
#endif
