/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

#define __section(s) __attribute__((__section__(s)))
#define __used __attribute__((__used__))
#define __unused __attribute__((__unused__))
#define __maybe_unused __unused
#define __always_unused __unused
#define __packed __attribute__((__packed__))
#define __aligned(x) __attribute__((__aligned__(x)))
#define __weak __attribute__((__weak__))
#define __alias(s) __attribute__((__alias__(#s)))
#define __printf(a, b) __attribute__((__format__(printf, a, b)))
#define __noreturn __attribute__((__noreturn__))
#define __cold __attribute__((__cold__))
#define __must_check __attribute__((__warn_unused_result__))
#define __always_inline inline __attribute__((__always_inline__))
#define __visible __attribute__((__externally_visible__))
#define noinline __attribute__((__noinline__))
#define noinline_for_stack noinline
#define asmlinkage
#define fallthrough __attribute__((__fallthrough__))

#define __user
#define __kernel
#define __iomem
#define __force
#define __percpu
#define __rcu
#define __acquires(x)
#define __releases(x)
#define __must_hold(x)

/* No entry nop: the function can't be traced by ftrace. */
#define notrace __attribute__((__no_instrument_function__))
/* No probes: its own section, or (NOKPROBE_SYMBOL) an entry in the blacklist. */
#define __kprobes notrace noinline __section(".kprobes.text")
#define nokprobe_inline __always_inline
#define noinstr notrace noinline __section(".noinstr.text")
#define __init notrace __cold __section(".init.text")
#define __initdata
#define __exit
#define __exitdata
#define __ro_after_init
#define __read_mostly

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define barrier() __asm__ __volatile__("" ::: "memory")
/* The value of a call that is not made a jump: its caller is to be seen on the stack. */
#define not_tail(call) ({ __typeof__(call) __v = (call); barrier(); __v; })
#define unreachable() __builtin_unreachable()
#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, v) (*(volatile __typeof__(x) *)&(x) = (v))
#define offsetof(t, m) __builtin_offsetof(t, m)
#define container_of(p, t, m) ((t *)((char *)(p) - offsetof(t, m)))
#define sizeof_field(t, m) sizeof(((t *)0)->m)
#define offsetofend(t, m) (offsetof(t, m) + sizeof_field(t, m))
#define __stringify_1(x...) #x
#define __stringify(x...) __stringify_1(x)
#define ___PASTE(a, b) a##b
#define __PASTE(a, b) ___PASTE(a, b)
#define __UNIQUE_ID(p) __PASTE(__PASTE(__UNIQUE_ID_, p), __COUNTER__)
#define BUILD_BUG_ON(c) _Static_assert(!(c), #c)
#define static_assert(c, ...) _Static_assert(c, #c)

#define THIS_IP ({ __label__ __here; __here: (unsigned long)&&__here; })
#define _RET_IP_ ((unsigned long)__builtin_return_address(0))
