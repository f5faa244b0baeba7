/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * BUG and WARN are ud2 with an entry in __bug_table: place, file (both relative to their
 * own address), line, flags.
 */
#pragma once
#include <linux/types.h>

#define BUGFLAG_WARNING 1
#define BUGFLAG_ONCE 2
#define BUGFLAG_DONE 4
#define BUGFLAG_NO_CUT_HERE 8 /* the warning has been printed already */
struct bug_entry {
	s32 bug_addr_disp, file_disp;
	u16 line, flags;
};
extern struct bug_entry __start___bug_table[], __stop___bug_table[];
struct pt_regs;
int report_bug(unsigned long bugaddr, struct pt_regs *regs);

#define __BUG_FLAGS(f) \
	__asm__ __volatile__("1: ud2\n.pushsection __bug_table, \"aw\"\n.balign 4\n" \
		"2: .long 1b - .\n.long %c0 - .\n.word %c1, %c2\n.popsection" \
		: : "i"(__FILE__), "i"(__LINE__), "i"(f))
#define BUG() do { __BUG_FLAGS(0); __builtin_unreachable(); } while (0)
#define BUG_ON(c) do { if (unlikely(c)) BUG(); } while (0)
#define __WARN() __BUG_FLAGS(BUGFLAG_WARNING)
#define WARN_ON(c) ({ int __c = !!(c); \
	if (unlikely(__c)) \
		__WARN(); \
	unlikely(__c); })
#define WARN_ON_ONCE(c) ({ int __c = !!(c); \
	if (unlikely(__c)) \
		__BUG_FLAGS(BUGFLAG_WARNING | BUGFLAG_ONCE); \
	unlikely(__c); })
void __warn_printk(const char *fmt, ...) __attribute__((__format__(printf, 1, 2)));
#define __WARN_printf(f...) do { \
	__warn_printk(f); \
	__BUG_FLAGS(BUGFLAG_WARNING | BUGFLAG_NO_CUT_HERE); \
} while (0)
#define WARN(c, f...) ({ int __c = !!(c); \
	if (unlikely(__c)) \
		__WARN_printf(f); \
	unlikely(__c); })
#define WARN_ONCE(c, f...) ({ static bool __warned; int __c = !!(c); \
	if (unlikely(__c && !__warned)) { \
		__warned = true; \
		__WARN_printf(f); \
	} \
	unlikely(__c); })
