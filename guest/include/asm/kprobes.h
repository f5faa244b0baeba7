/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The part of a probe that is specific to x86; engine/guest_api.py fills it in. */
#pragma once
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
};
/* The probe that a CPU is handling. */
struct kprobe_ctlblk {
	unsigned long kprobe_status;
	struct prev_kprobe prev_kprobe; /* what was interrupted by a hit within its handler */
};
#define KPROBE_HIT_ACTIVE 0x1 /* a pre_handler runs */
#define KPROBE_HIT_SS 0x2     /* the copy of the instruction is run */
#define KPROBE_REENTER 0x4    /* a hit within a handler: it is only counted */
#define KPROBE_HIT_SSDONE 0x8 /* a post_handler runs */
