/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The part of a probe that is specific to x86; engine/guest_api.py fills it in. */
#pragma once
#include <asm/ptrace.h>
#include <linux/types.h>

typedef u8 kprobe_opcode_t;
#define MAX_INSN_SIZE 16
#define BREAKPOINT_INSTRUCTION 0xcc
#define MAX_STACK_SIZE 64

struct arch_specific_insn {
	kprobe_opcode_t *insn; /* the copy that is run in its place; NULL: by ftrace */
	int boostable;         /* 1: the copy may end in a jump back, if there is no post_handler */
	unsigned char size;    /* of the instruction */
};

struct kprobe;
struct prev_kprobe {
	struct kprobe *kp;
	unsigned long status;
	__reg(old_flags, old_rflags, old_eflags);
	__reg(saved_flags, saved_rflags, saved_eflags);
};
/* The probe that a CPU is handling; arch_hooks.py has the same as a tuple. */
struct kprobe_ctlblk {
	unsigned long kprobe_status;
	/* the interrupt and trap flags at the hit, and those to be set again */
	__reg(kprobe_old_flags, kprobe_old_rflags, kprobe_old_eflags);
	__reg(kprobe_saved_flags, kprobe_saved_rflags, kprobe_saved_eflags);
	__reg(jprobe_saved_sp, jprobe_saved_rsp, jprobe_saved_esp);
	struct prev_kprobe prev_kprobe; /* the probe whose handler was interrupted by a hit */
	struct pt_regs jprobe_saved_regs;
	kprobe_opcode_t jprobes_stack[MAX_STACK_SIZE];
};
#define KPROBE_HIT_ACTIVE 0x1 /* a pre_handler runs */
#define KPROBE_HIT_SS 0x2     /* the copy of the instruction is run */
#define KPROBE_REENTER 0x4    /* a hit within a handler: it is only counted */
#define KPROBE_HIT_SSDONE 0x8 /* a post_handler runs */
