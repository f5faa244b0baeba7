/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The configuration of this kernel, for modules; scripts/build-module includes it first. */
#pragma once

#define CONFIG_X86 1
#define CONFIG_X86_64 1
#define CONFIG_64BIT 1
#define CONFIG_SMP 1
#define CONFIG_PREEMPTION 1
#define CONFIG_HZ 250
#define CONFIG_MODULES 1
#define CONFIG_MODULE_UNLOAD 1
#define CONFIG_KALLSYMS 1
#define CONFIG_PRINTK 1
#define CONFIG_STACKTRACE 1
#define CONFIG_KPROBES 1
#define CONFIG_KRETPROBES 1
#define CONFIG_KPROBES_ON_FTRACE 1
#define CONFIG_OPTPROBES 1
#define CONFIG_KRETPROBE_ON_RETHOOK 1
#define CONFIG_HAVE_FUNCTION_ARG_ACCESS_API 1
#define CONFIG_ARCH_CORRECT_STACKTRACE_ON_KRETPROBE 1
#define CONFIG_KUNIT 1
#ifdef MODULE
#define CONFIG_KPROBES_SANITY_TEST_MODULE 1
#endif

/* 1 if an option is defined as 1, else 0; usable in #if. */
#define __KCONFIG_ARG_1 0,
#define __kconfig_second(_ignored, val, ...) val
#define __is_defined(x) ___is_defined(x)
#define ___is_defined(val) ____is_defined(__KCONFIG_ARG_##val)
#define ____is_defined(arg_or_junk) __kconfig_second(arg_or_junk 1, 0)
#define IS_BUILTIN(option) __is_defined(option)
#define IS_MODULE(option) __is_defined(option##_MODULE)
#define IS_ENABLED(option) (IS_BUILTIN(option) || IS_MODULE(option))
#define IS_REACHABLE(option) IS_ENABLED(option)
