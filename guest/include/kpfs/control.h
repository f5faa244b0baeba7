/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What guest code asks of Python while the guest stands still (HC_API): the kprobes API,
 * and the part of loading a module that is not the kernel's own. guest/control.py serves it.
 */
#ifndef _KPFS_CONTROL_H
#define _KPFS_CONTROL_H

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

/* guest/modules.py */
#define CTL_MODULE_LOAD 0x100  /* (user address, length): struct module *, or -errno */
#define CTL_MODULE_STATE 0x101 /* (mod, enum module_state): its notifiers outside the guest */
#define CTL_MODULE_FREE_INIT 0x102 /* (mod) */
#define CTL_MODULE_FREE 0x103  /* (mod): unlink and free */

#define CTL_JUMP_LABEL 0x210 /* (struct jump_entry *, on): make its site a jump or a nop */

/* guest/backtrace.py */
#define CTL_STACK_TRACE 0x200 /* (struct kpfs_stack_trace *): addresses stored */

#ifndef __ASSEMBLER__
struct kpfs_stack_trace {
	unsigned long *store;
	unsigned long size, skip;
	const struct pt_regs *regs; /* NULL: the caller's own */
};
long kpfs_control(unsigned long nr, unsigned long a, unsigned long b);
#endif
#endif
