/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Trace points. trace_NAME() costs a nop until a static key makes it a jump to a call of
 * __traceiter_NAME(), which calls the functions that modules have registered, and what records
 * the events of that trace point. The key counts both.
 */
#pragma once
#include <linux/jump_label.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>

struct tracepoint_func {
	void *func, *data;
	int prio;
};
struct tracepoint {
	struct static_key key;   /* first: guest/running/trace_events.py takes one for the other */
	int (*regfunc)(void);    /* before the first user comes; may refuse */
	void (*unregfunc)(void); /* when the last one goes */
	struct tracepoint_func *funcs; /* up to one without func; NULL: there are none */
	const char *name;
};
int tracepoint_probe_register(struct tracepoint *tp, void *probe, void *data);
int tracepoint_probe_register_prio(struct tracepoint *tp, void *probe, void *data, int prio);
int tracepoint_probe_unregister(struct tracepoint *tp, void *probe, void *data);
void for_each_kernel_tracepoint(void (*fct)(struct tracepoint *tp, void *priv), void *priv);
#define tracepoint_synchronize_unregister() synchronize_rcu()
#define TRACEPOINT_DEFAULT_PRIO 10

#define PARAMS(args...) args
#define TP_PROTO(args...) args
#define TP_ARGS(args...) args
#define TP_CONDITION(args...) args
#define DECLARE_TRACE_CONDITION(name, proto, args, cond) \
	extern struct tracepoint __tracepoint_##name; \
	void __traceiter_##name(proto); \
	static __always_inline bool trace_##name##_enabled(void) \
	{ \
		return unlikely(arch_static_branch(&__tracepoint_##name.key)); \
	} \
	static __always_inline void trace_##name(proto) \
	{ \
		if (unlikely(arch_static_branch(&__tracepoint_##name.key)) && (cond)) \
			__traceiter_##name(args); \
	} \
	static inline int register_trace_##name(void (*probe)(void *__data, proto), void *data) \
	{ \
		return tracepoint_probe_register(&__tracepoint_##name, (void *)probe, data); \
	} \
	static inline int register_trace_prio_##name(void (*probe)(void *__data, proto), \
						     void *data, int prio) \
	{ \
		return tracepoint_probe_register_prio(&__tracepoint_##name, (void *)probe, data, \
						      prio); \
	} \
	static inline int unregister_trace_##name(void (*probe)(void *__data, proto), void *data) \
	{ \
		return tracepoint_probe_unregister(&__tracepoint_##name, (void *)probe, data); \
	} \
	static inline void check_trace_callback_type_##name(void (*cb)(void *__data, proto)) \
	{ \
	}
#define DECLARE_TRACE(name, proto, args) \
	DECLARE_TRACE_CONDITION(name, PARAMS(proto), PARAMS(args), true)

/* A trace point, whose __traceiter_NAME() the caller defines. */
#define DEFINE_TRACEPOINT(name_, reg, unreg) \
	struct tracepoint __tracepoint_##name_ = { \
		.regfunc = reg, .unregfunc = unreg, .name = #name_ \
	}; \
	static struct tracepoint *const __used __section("__tracepoints_ptrs") \
		__tracepoint_ptr_##name_ = &__tracepoint_##name_
/* Call the functions that modules have registered. */
#define CALL_TRACE_PROBES(name, proto, args) \
	do { \
		struct tracepoint_func *__func; \
		if (likely(!READ_ONCE(__tracepoint_##name.funcs))) \
			break; \
		preempt_disable_notrace(); \
		__func = READ_ONCE(__tracepoint_##name.funcs); \
		for (; __func && __func->func; __func++) \
			((void (*)(void *, proto))__func->func)(__func->data, args); \
		preempt_enable_notrace(); \
	} while (0)
#define DEFINE_TRACE_FN(name, reg, unreg, proto, args) \
	DEFINE_TRACEPOINT(name, reg, unreg); \
	notrace void __traceiter_##name(proto) \
	{ \
		CALL_TRACE_PROBES(name, PARAMS(proto), PARAMS(args)); \
	}
#define DEFINE_TRACE(name, proto, args) \
	DEFINE_TRACE_FN(name, NULL, NULL, PARAMS(proto), PARAMS(args))
#define EXPORT_TRACEPOINT_SYMBOL_GPL(name) \
	EXPORT_SYMBOL_GPL(__tracepoint_##name); \
	EXPORT_SYMBOL_GPL(__traceiter_##name)
#define EXPORT_TRACEPOINT_SYMBOL(name) \
	EXPORT_SYMBOL(__tracepoint_##name); \
	EXPORT_SYMBOL(__traceiter_##name)
#include <trace/declare.h>
