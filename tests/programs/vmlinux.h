/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a BPF program wants of vmlinux.h, in place of what bpftool makes of a kernel's BTF: its
 * fields are in an order that no kernel has, so that they must be looked for when it is loaded.
 */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__
typedef unsigned char __u8;
typedef short __s16;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;
typedef __u16 __be16, __sum16;
typedef __u32 __be32, __wsum;
enum bpf_map_type { BPF_MAP_TYPE_UNSPEC };
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
	unsigned long orig_ax, ip, cs, flags, sp, ss;
};
struct file;
struct task_struct {
	int tgid;
	struct task_struct *real_parent;
};
#pragma clang attribute pop
#endif
