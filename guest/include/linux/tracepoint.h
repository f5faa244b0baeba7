/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Trace points. trace_NAME() costs a nop until a static key makes it a jump to a call of
 * __traceiter_NAME(), which calls what records the events of that trace point.
 */
#pragma once
#include <linux/jump_label.h>

#define PARAMS(args...) args
#define TP_PROTO(args...) args
#define TP_ARGS(args...) args
#define TP_CONDITION(args...) args
#define DECLARE_TRACE_CONDITION(name, proto, args, cond) \
	extern struct static_key_false __tracepoint_##name; \
	void __traceiter_##name(proto); \
	static __always_inline bool trace_##name##_enabled(void) \
	{ \
		return static_branch_unlikely(&__tracepoint_##name); \
	} \
	static __always_inline void trace_##name(proto) \
	{ \
		if (static_branch_unlikely(&__tracepoint_##name) && (cond)) \
			__traceiter_##name(args); \
	}
#define DECLARE_TRACE(name, proto, args) \
	DECLARE_TRACE_CONDITION(name, PARAMS(proto), PARAMS(args), true)
#define DEFINE_TRACE(name) DEFINE_STATIC_KEY_FALSE(__tracepoint_##name)
#include <trace/declare.h>
