/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/types.h>

#ifdef KPFS_API_2_6
/* A word has its name of x86-64 and of i386 in Linux 2.6, too. */
#define __reg(name, of_x86_64, of_i386) union { unsigned long name, of_x86_64, of_i386; }
#else
#define __reg(name, of_x86_64, of_i386) unsigned long name
#endif

struct pt_regs {
	unsigned long r15, r14, r13, r12;
	__reg(bp, rbp, ebp);
	__reg(bx, rbx, ebx);
	unsigned long r11, r10, r9, r8;
	__reg(ax, rax, eax);
	__reg(cx, rcx, ecx);
	__reg(dx, rdx, edx);
	__reg(si, rsi, esi);
	__reg(di, rdi, edi);
	__reg(orig_ax, orig_rax, orig_eax);
	__reg(ip, rip, eip);
	__reg(cs, __cs, xcs);
	__reg(flags, __flags, eflags);
	__reg(sp, rsp, esp);
	__reg(ss, __ss, xss);
};

#define X86_EFLAGS_CF 0x1UL
#define X86_EFLAGS_TF 0x100UL
#define X86_EFLAGS_IF 0x200UL

static inline int user_mode(struct pt_regs *regs) { return !!(regs->cs & 3); }
static inline unsigned long instruction_pointer(struct pt_regs *regs) { return regs->ip; }
static inline void instruction_pointer_set(struct pt_regs *regs, unsigned long v) { regs->ip = v; }
static inline unsigned long kernel_stack_pointer(struct pt_regs *regs) { return regs->sp; }
static inline unsigned long user_stack_pointer(struct pt_regs *regs) { return regs->sp; }
static inline unsigned long frame_pointer(struct pt_regs *regs) { return regs->bp; }
static inline unsigned long regs_return_value(struct pt_regs *regs) { return regs->ax; }
static inline void regs_set_return_value(struct pt_regs *regs, unsigned long v) { regs->ax = v; }
static inline unsigned long regs_get_kernel_argument(struct pt_regs *regs, unsigned int n)
{
	unsigned long arg[] = { regs->di, regs->si, regs->dx, regs->cx, regs->r8, regs->r9 };

	return n < 6 ? arg[n] : 0;
}
