/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The configuration of this kernel unless --config says otherwise. config.gz is made of these lines,
 * and build-module puts a header made of config.gz in the place of this one if it differs.
 */
#pragma once

#define CONFIG_LOCALVERSION "-kpfs"
#define CONFIG_NR_CPUS 16 /* kernel.ld has room for them */
#define CONFIG_HZ 250
#define CONFIG_64BIT 1
#define CONFIG_ARCH_CORRECT_STACKTRACE_ON_KRETPROBE 1
#define CONFIG_BUG 1
#define CONFIG_DEBUG_FS 1
#define CONFIG_DEBUG_INFO 1
#define CONFIG_DYNAMIC_EVENTS 1
#define CONFIG_DYNAMIC_FTRACE 1
#define CONFIG_DYNAMIC_FTRACE_WITH_REGS 1
#define CONFIG_EVENT_TRACING 1
#define CONFIG_FTRACE 1
#define CONFIG_FTRACE_SYSCALLS 1
#define CONFIG_FUNCTION_PROFILER 1
#define CONFIG_FUNCTION_TRACER 1
#define CONFIG_HAVE_FUNCTION_ARG_ACCESS_API 1
#define CONFIG_HZ_250 1
#define CONFIG_IKCONFIG 1
#define CONFIG_IKCONFIG_PROC 1
#define CONFIG_INET 1
#define CONFIG_JUMP_LABEL 1
#define CONFIG_KALLSYMS 1
#define CONFIG_KALLSYMS_ALL 1
#define CONFIG_KPROBES 1
#define CONFIG_KPROBES_ON_FTRACE 1
#define CONFIG_KPROBE_EVENTS 1
#define CONFIG_KRETPROBES 1
#define CONFIG_KRETPROBE_ON_RETHOOK 1
#define CONFIG_KUNIT 1
#define CONFIG_MODULES 1
#define CONFIG_MODULE_UNLOAD 1
#define CONFIG_NET 1
#define CONFIG_OPTPROBES 1
#define CONFIG_PREEMPT 1
#define CONFIG_PREEMPTION 1
#define CONFIG_PREEMPT_COUNT 1
#define CONFIG_PREEMPT_RCU 1
#define CONFIG_PRINTK 1
#define CONFIG_PROBE_EVENTS 1
#define CONFIG_PROC_FS 1
#define CONFIG_RETHOOK 1
#define CONFIG_RING_BUFFER 1
#define CONFIG_SMP 1
#define CONFIG_STACKTRACE 1
#define CONFIG_SYNTH_EVENTS 1
#define CONFIG_SYSCTL 1
#define CONFIG_TASKS_RCU 1
#define CONFIG_TRACEPOINTS 1
#define CONFIG_TRACER_SNAPSHOT 1
#define CONFIG_TRACING 1
#define CONFIG_X86 1
#define CONFIG_X86_64 1
