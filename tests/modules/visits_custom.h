/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An event of our own at a trace point of the kernel: see visits_calls.c. */
#if !defined(_VISITS_CUSTOM_H) || defined(TRACE_CUSTOM_MULTI_READ)
#define _VISITS_CUSTOM_H
#include <linux/trace_events.h>

TRACE_CUSTOM_EVENT(sys_enter, TP_PROTO(struct pt_regs *regs, long id), TP_ARGS(regs, id),
		   TP_STRUCT__entry(__field(unsigned short, id)), TP_fast_assign(__entry->id = id;),
		   TP_printk("call %u", __entry->id))
#endif
#undef TRACE_INCLUDE_PATH
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_PATH .
#define TRACE_INCLUDE_FILE visits_custom
#include <trace/define_custom_trace.h>
