/* SPDX-License-Identifier: GPL-2.0-or-later */
/* As on x86-64: __x64_sys_NAME(regs) takes the arguments out of the registers. */
#pragma once
#include <asm/ptrace.h>

/* The text of which guest/running/trace_events.py makes sys_enter_NAME: "NAME(TYPE ARG, ...)". */
#define SYSCALL_METADATA(name, args) \
	static const char __syscall_meta_##name[] __used __section("__syscalls_metadata") = \
		#name "(" args ")"
#define SYSCALL_DEFINE0(name) \
	SYSCALL_METADATA(name, ""); \
	long __x64_sys_##name(const struct pt_regs *); \
	static long __used noinline __do_sys_##name(const struct pt_regs *__unused); \
	long __x64_sys_##name(const struct pt_regs *) __alias(__do_sys_##name); \
	static long __used noinline __do_sys_##name(const struct pt_regs *__regs)
#define __SYSCALL_DEFINE(name, call, ...) \
	SYSCALL_METADATA(name, #__VA_ARGS__); \
	long __x64_sys_##name(const struct pt_regs *regs); \
	static inline long __do_sys_##name(__VA_ARGS__); \
	long __x64_sys_##name(const struct pt_regs *regs) { return __do_sys_##name call; } \
	static inline long __do_sys_##name(__VA_ARGS__)
#define SYSCALL_DEFINE1(name, t1, a1) \
	__SYSCALL_DEFINE(name, ((t1)regs->di), t1 a1)
#define SYSCALL_DEFINE2(name, t1, a1, t2, a2) \
	__SYSCALL_DEFINE(name, ((t1)regs->di, (t2)regs->si), t1 a1, t2 a2)
#define SYSCALL_DEFINE3(name, t1, a1, t2, a2, t3, a3) \
	__SYSCALL_DEFINE(name, ((t1)regs->di, (t2)regs->si, (t3)regs->dx), t1 a1, t2 a2, t3 a3)
#define SYSCALL_DEFINE4(name, t1, a1, t2, a2, t3, a3, t4, a4) \
	__SYSCALL_DEFINE(name, ((t1)regs->di, (t2)regs->si, (t3)regs->dx, (t4)regs->r10), \
			 t1 a1, t2 a2, t3 a3, t4 a4)
#define SYSCALL_DEFINE5(name, t1, a1, t2, a2, t3, a3, t4, a4, t5, a5) \
	__SYSCALL_DEFINE(name, ((t1)regs->di, (t2)regs->si, (t3)regs->dx, (t4)regs->r10, \
			 (t5)regs->r8), t1 a1, t2 a2, t3 a3, t4 a4, t5 a5)
#define SYSCALL_DEFINE6(name, t1, a1, t2, a2, t3, a3, t4, a4, t5, a5, t6, a6) \
	__SYSCALL_DEFINE(name, ((t1)regs->di, (t2)regs->si, (t3)regs->dx, (t4)regs->r10, \
			 (t5)regs->r8, (t6)regs->r9), t1 a1, t2 a2, t3 a3, t4 a4, t5 a5, t6 a6)

typedef long (*sys_call_ptr_t)(const struct pt_regs *);
extern const sys_call_ptr_t sys_call_table[];
long __x64_sys_ni_syscall(const struct pt_regs *regs);
