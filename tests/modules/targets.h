/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Functions to probe for all suites, opaque to the compiler. */
#pragma once
#include <kunit/test.h>
#include <linux/kprobes.h>
#include <linux/module.h>

#define TARGET __attribute__((__noipa__))
#define KP_CLEAR(kp) do { (kp).addr = NULL; (kp).flags = 0; } while (0)

/* Handlers that do one thing. */
#define PRE(name, ...) \
	static int name(struct kprobe *p, struct pt_regs *regs) { __VA_ARGS__; return 0; }
#define POST(name, ...) \
	static void name(struct kprobe *p, struct pt_regs *regs, unsigned long flags) { __VA_ARGS__; }
#define KRET(name, ...) \
	static int name(struct kretprobe_instance *ri, struct pt_regs *regs) { __VA_ARGS__; return 0; }

/* Expect each value to equal the one behind it: a call its result, then a counter its number. */
#define EXPECT_EQUAL(...) _EXPECT_EQUAL(__VA_ARGS__, 8, _, 6, _, 4, _, 2)
#define _EXPECT_EQUAL(a, b, c, d, e, f, g, h, n, ...) _EXPECT_##n(a, b, c, d, e, f, g, h)
#define _EXPECT_2(a, b, ...) KUNIT_EXPECT_EQ(test, a, b)
#define _EXPECT_4(a, b, ...) do { _EXPECT_2(a, b); _EXPECT_2(__VA_ARGS__); } while (0)
#define _EXPECT_6(a, b, ...) do { _EXPECT_2(a, b); _EXPECT_4(__VA_ARGS__); } while (0)
#define _EXPECT_8(a, b, ...) do { _EXPECT_2(a, b); _EXPECT_6(__VA_ARGS__); } while (0)

/* Define the module of one suite: its name, what runs before each case or NULL, its cases. */
#define SUITE(suite_name, before_case, ...)					\
	static struct kunit_case cases[] = { __VA_ARGS__, {} };			\
	static struct kunit_suite suite = {					\
		.name = #suite_name, .init = before_case, .test_cases = cases,	\
	};									\
	kunit_test_suite(suite);						\
	MODULE_LICENSE("GPL")

/* The eight bytes of text at an address. */
static inline u64 text_at(void *addr)
{
	return READ_ONCE(*(u64 *)addr);
}

/* Unregister a probe, and let it be registered once more. */
static inline void remove_kprobe(struct kprobe *p)
{
	unregister_kprobe(p);
	KP_CLEAR(*p);
}
static inline void remove_kretprobe(struct kretprobe *rp)
{
	unregister_kretprobe(rp);
	KP_CLEAR(rp->kp);
}
