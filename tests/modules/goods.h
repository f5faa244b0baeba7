/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Events of a shop, with each kind of field and of text: see goods_calls.c. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM goods

#if !defined(_GOODS_H) || defined(TRACE_HEADER_MULTI_READ)
#define _GOODS_H
#include <linux/tracepoint.h>

#ifndef GOODS_KINDS
#define GOODS_KINDS
enum { GOODS_RED, GOODS_BLUE = 5 };
#endif
TRACE_DEFINE_ENUM(GOODS_RED);
TRACE_DEFINE_ENUM(GOODS_BLUE);

#define show_kind(kind) \
	__print_symbolic(kind, { GOODS_RED, "red" }, { GOODS_BLUE, "blue" })
#define GOODS_NAME 12

TRACE_EVENT(goods_in,
	    TP_PROTO(const char *name, int count, const int *list, int nr, unsigned long flags),
	    TP_ARGS(name, count, list, nr, flags),
	    TP_STRUCT__entry(__field(int, count) __array(char, label, GOODS_NAME)
				     __string(name, name) __dynamic_array(int, list, nr)
					     __field(unsigned long, flags) __field(u8, kind)
						     __array(u16, pair, 2)),
	    TP_fast_assign(__entry->count = count; strscpy(__entry->label, name, GOODS_NAME);
			   __assign_str(name, name);
			   memcpy(__get_dynamic_array(list), list, nr * sizeof(int));
			   __entry->flags = flags;
			   __entry->kind = count & 1 ? GOODS_BLUE : GOODS_RED;
			   __entry->pair[0] = count; __entry->pair[1] = ~count;),
	    TP_printk("%s(%.3s) count=%d %s list=%s (%u) flags=%s %#lx %5s|%-5s| %04x %u/%u %s",
		      __get_str(name), __entry->label, __entry->count, show_kind(__entry->kind),
		      __print_array(__get_dynamic_array(list),
				    __get_dynamic_array_len(list) / sizeof(int), sizeof(int)),
		      __get_dynamic_array_len(list),
		      __print_flags(__entry->flags, "|", { 1, "A" }, { 2, "B" }, { 0x10, "C" }),
		      __entry->flags, __entry->count > 2 ? "many" : "few", "x",
		      (u16)(__entry->count << 1) & 0xfff, __entry->pair[0], __entry->pair[1],
		      __print_hex(__entry->label, 3)));

DECLARE_EVENT_CLASS(goods_template, TP_PROTO(int a, long b), TP_ARGS(a, b),
		    TP_STRUCT__entry(__field(int, a) __field(long, b)),
		    TP_fast_assign(__entry->a = a; __entry->b = b;),
		    TP_printk("a=%d b=%ld", __entry->a, __entry->b));
DEFINE_EVENT(goods_template, goods_out, TP_PROTO(int a, long b), TP_ARGS(a, b));
DEFINE_EVENT(goods_template, goods_back, TP_PROTO(int a, long b), TP_ARGS(a, b));
DEFINE_EVENT_PRINT(goods_template, goods_lost, TP_PROTO(int a, long b), TP_ARGS(a, b),
		   TP_printk("lost %d of %ld", __entry->a, __entry->b));
TRACE_EVENT_CONDITION(goods_rare, TP_PROTO(int a), TP_ARGS(a), TP_CONDITION(a > 2),
		      TP_STRUCT__entry(__field(int, a)), TP_fast_assign(__entry->a = a;),
		      TP_printk("a=%d", __entry->a));
#endif

#undef TRACE_INCLUDE_PATH
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_PATH .
#define TRACE_INCLUDE_FILE goods
#include <trace/define_trace.h>
