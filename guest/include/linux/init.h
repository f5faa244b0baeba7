/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/compiler.h>
typedef int (*initcall_t)(void);
typedef void (*exitcall_t)(void);
int do_one_initcall(initcall_t fn);

#ifndef MODULE
#define __define_initcall(fn, id) \
	static initcall_t __initcall_##fn##id __used __section(".initcall" #id) = fn
#define early_initcall(fn) __define_initcall(fn, 1)
#define core_initcall(fn) __define_initcall(fn, 2)
#define arch_initcall(fn) __define_initcall(fn, 3)
#define subsys_initcall(fn) __define_initcall(fn, 4)
#define fs_initcall(fn) __define_initcall(fn, 5)
#define device_initcall(fn) __define_initcall(fn, 6)
#define late_initcall(fn) __define_initcall(fn, 7)
#else
/* A module's init text and data are freed after its init; its functions have entry nops. */
#undef __init
#undef __initdata
#undef __exit
#define __init __cold __section(".init.text")
#define __initdata __section(".init.data")
#define __initconst __section(".init.rodata")
#define __exit __used __cold notrace __section(".exit.text")
#define __exit_p(x) x
#define early_initcall(fn) module_init(fn)
#define core_initcall(fn) module_init(fn)
#define subsys_initcall(fn) module_init(fn)
#define fs_initcall(fn) module_init(fn)
#define device_initcall(fn) module_init(fn)
#define late_initcall(fn) module_init(fn)
#define module_init(fn) \
	static inline initcall_t __maybe_unused __inittest(void) { return fn; } \
	int init_module(void) __attribute__((__copy__(fn), __alias__(#fn)));
#define module_exit(fn) \
	static inline exitcall_t __maybe_unused __exittest(void) { return fn; } \
	void cleanup_module(void) __attribute__((__copy__(fn), __alias__(#fn)));
#endif
