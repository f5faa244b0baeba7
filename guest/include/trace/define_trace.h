/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Defines the events of the header that includes this at its end, in the one source of a module
 * that has said CREATE_TRACE_POINTS. The header says TRACE_EVENT() and the like once, of which
 * several things are made: the structure of a record, the rows that describe its fields, a
 * function that fills it in, and the event's own description. So the header is read again for
 * each of them, with the macros that it uses defined anew.
 */
#ifdef CREATE_TRACE_POINTS
#undef CREATE_TRACE_POINTS
#include <linux/cpumask.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/trace_events.h>

#ifndef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE TRACE_SYSTEM
#define KPFS_TRACE_INCLUDE_FILE
#endif
#ifdef TRACE_INCLUDE_PATH
#define __TRACE_INCLUDE(file) __stringify(TRACE_INCLUDE_PATH/file.h)
#else
#define __TRACE_INCLUDE(file) __stringify(trace/events/file.h)
#endif
#define TRACE_HEADER_MULTI_READ

#define TP_STRUCT__entry(args...) args
#define TP_fast_assign(args...) args

/* An event with a class of its own, and one of a class under a condition, are as others. */
#undef TRACE_EVENT
#define TRACE_EVENT(name, proto, args, tstruct, assign, print) \
	TRACE_EVENT_FN(name, PARAMS(proto), PARAMS(args), PARAMS(tstruct), PARAMS(assign), \
		       PARAMS(print), NULL, NULL)
#undef TRACE_EVENT_FN
#define TRACE_EVENT_FN(name, proto, args, tstruct, assign, print, reg, unreg) \
	DECLARE_EVENT_CLASS(name, PARAMS(proto), PARAMS(args), PARAMS(tstruct), \
			    PARAMS(assign), PARAMS(print)) \
	DEFINE_EVENT_FN(name, name, PARAMS(proto), PARAMS(args), reg, unreg)
#undef TRACE_EVENT_FN_COND
#define TRACE_EVENT_FN_COND(name, proto, args, cond, tstruct, assign, print, reg, unreg) \
	TRACE_EVENT_FN(name, PARAMS(proto), PARAMS(args), PARAMS(tstruct), PARAMS(assign), \
		       PARAMS(print), reg, unreg)
#undef TRACE_EVENT_CONDITION
#define TRACE_EVENT_CONDITION(name, proto, args, cond, tstruct, assign, print) \
	TRACE_EVENT(name, PARAMS(proto), PARAMS(args), PARAMS(tstruct), PARAMS(assign), \
		    PARAMS(print))
#undef DEFINE_EVENT
#define DEFINE_EVENT(template, name, proto, args) \
	DEFINE_EVENT_FN(template, name, PARAMS(proto), PARAMS(args), NULL, NULL)
#undef DEFINE_EVENT_CONDITION
#define DEFINE_EVENT_CONDITION(template, name, proto, args, cond) \
	DEFINE_EVENT(template, name, PARAMS(proto), PARAMS(args))
/* Trace points without events. */
#undef DECLARE_TRACE
#define DECLARE_TRACE(name, proto, args)

/* ---- 1. the structure of a record, and one with the places of its dynamic parts */
#include <trace/fields.h>
#undef TRACE_DEFINE_ENUM
#define TRACE_DEFINE_ENUM(name) \
	static const struct trace_eval_map __used __section("_ftrace_eval_map") \
		__PASTE(eval_##name, __LINE__) = { __stringify(TRACE_SYSTEM), #name, (long)(name) }
#undef TRACE_DEFINE_SIZEOF
#define TRACE_DEFINE_SIZEOF(name) \
	static const struct trace_eval_map __used __section("_ftrace_eval_map") \
		__PASTE(eval_sizeof_, __LINE__) = { __stringify(TRACE_SYSTEM), \
						    "sizeof(" #name ")", sizeof(name) }
#define __field_ext(type, item, filter_type) type item;
#define __field_struct_ext(type, item, filter_type) type item;
#define __array(type, item, len) type item[len];
#define __loc_array(loc, type, item, len) u32 __##loc##_loc_##item;
#undef DECLARE_EVENT_CLASS
#define DECLARE_EVENT_CLASS(name, proto, args, tstruct, assign, print) \
	struct trace_event_raw_##name { \
		struct trace_entry ent; \
		tstruct \
		char __data[]; \
	};
#undef DEFINE_EVENT_FN
#define DEFINE_EVENT_FN(template, name, proto, args, reg, unreg)
#undef DEFINE_EVENT_PRINT
#define DEFINE_EVENT_PRINT(template, name, proto, args, print)
#undef DEFINE_CUSTOM_EVENT
#define DEFINE_CUSTOM_EVENT(template, name, proto, args)
#include __TRACE_INCLUDE(TRACE_INCLUDE_FILE)
#undef TRACE_DEFINE_ENUM
#define TRACE_DEFINE_ENUM(name)
#undef TRACE_DEFINE_SIZEOF
#define TRACE_DEFINE_SIZEOF(name)

/* ---- 2. the bytes of its dynamic parts */
#include <trace/fields.h>
#define __field_ext(type, item, filter_type)
#define __field_struct_ext(type, item, filter_type)
#define __array(type, item, len)
#define __loc_array(loc, type, item, len) \
	{ \
		u32 __length = (len) * sizeof(type), __from = __##loc##_loc_base(item); \
		__entry->__##loc##_loc_##item = \
			(__size + offsetof(__typeof__(*__entry), __data) - __from) | __length << 16; \
		__size += __length; \
	}
#undef DECLARE_EVENT_CLASS
#define DECLARE_EVENT_CLASS(name, proto, args, tstruct, assign, print) \
	static inline notrace u32 trace_event_get_offsets_##name( \
		struct trace_event_raw_##name *__entry, proto) \
	{ \
		u32 __size = 0; \
		tstruct \
		return __size; \
	}
#include __TRACE_INCLUDE(TRACE_INCLUDE_FILE)

/* ---- 3. the rows that describe its fields */
#include <trace/fields.h>
#define __field_struct_ext(type, item, filter_type) \
	{ #type, #item, 0, sizeof(type), 0, __alignof__(type) },
#define __field_ext(type, item, filter_type) \
	{ #type, #item, 0, sizeof(type), is_signed_type(type), __alignof__(type) },
#define __array(type, item, len) \
	{ #type, #item "[" __stringify(len) "]", 0, sizeof(type[len]), is_signed_type(type), \
	  __alignof__(type) },
#define __loc_array(loc, type, item, len) \
	{ "__" #loc "_loc " #type "[]", #item, 0, 4, is_signed_type(type), 4 },
#undef __loc_cpumask
#define __loc_cpumask(loc, item) { "__" #loc "_loc cpumask_t", #item, 0, 4, 0, 4 },
#undef DECLARE_EVENT_CLASS
#define DECLARE_EVENT_CLASS(name, proto, args, tstruct, assign, print) \
	static const struct trace_event_field trace_event_fields_##name[] = { tstruct };
#include __TRACE_INCLUDE(TRACE_INCLUDE_FILE)

/* ---- 4. the function that makes a record */
#include <trace/fields.h>
#define __field_ext(type, item, filter_type)
#define __field_struct_ext(type, item, filter_type)
#define __array(type, item, len)
#define __loc_array(loc, type, item, len)
#define __get_loc(loc, item) \
	((void *)__entry + __##loc##_loc_base(item) + (__entry->__##loc##_loc_##item & 0xffff))
#define __get_dynamic_array(item) __get_loc(data, item)
#define __get_dynamic_array_len(item) (__entry->__data_loc_##item >> 16)
#define __get_str(item) ((char *)__get_dynamic_array(item))
#define __get_bitmask(item) ((char *)__get_dynamic_array(item))
#define __get_cpumask(item) ((char *)__get_dynamic_array(item))
#define __get_sockaddr(item) ((struct sockaddr *)__get_dynamic_array(item))
#define __get_rel_dynamic_array(item) __get_loc(rel, item)
#define __get_rel_dynamic_array_len(item) (__entry->__rel_loc_##item >> 16)
#define __get_rel_str(item) ((char *)__get_rel_dynamic_array(item))
#define __get_rel_bitmask(item) ((char *)__get_rel_dynamic_array(item))
#define __get_rel_cpumask(item) ((char *)__get_rel_dynamic_array(item))
#define __get_rel_sockaddr(item) ((struct sockaddr *)__get_rel_dynamic_array(item))
#define __assign_loc_str(loc, item, src) \
	strcpy(__get_loc(loc, item), (src) ? (const char *)(src) : "(null)")
#define __assign_loc_str_len(loc, item, src, len) \
	do { \
		memcpy(__get_loc(loc, item), (src), (len)); \
		((char *)__get_loc(loc, item))[len] = 0; \
	} while (0)
#define __assign_loc_bits(loc, item, src, nr_bits) \
	memcpy(__get_loc(loc, item), (src), BITS_TO_LONGS(nr_bits) * sizeof(long))
#define __assign_str(item, src) __assign_loc_str(data, item, src)
#define __assign_str_len(item, src, len) __assign_loc_str_len(data, item, src, len)
#define __assign_vstr(item, fmt, args) \
	with_copied_va_list(__args, args, \
			    vsnprintf(__get_str(item), TRACE_EVENT_STR_MAX, fmt, __args))
#define __assign_bitmask(item, src, nr_bits) __assign_loc_bits(data, item, src, nr_bits)
#define __assign_cpumask(item, src) __assign_loc_bits(data, item, src, nr_cpu_ids)
#define __assign_sockaddr(item, src, len) memcpy(__get_dynamic_array(item), (src), (len))
#define __assign_rel_str(item, src) __assign_loc_str(rel, item, src)
#define __assign_rel_str_len(item, src, len) __assign_loc_str_len(rel, item, src, len)
#define __assign_rel_bitmask(item, src, nr_bits) __assign_loc_bits(rel, item, src, nr_bits)
#define __assign_rel_cpumask(item, src) __assign_loc_bits(rel, item, src, nr_cpu_ids)
#define __assign_rel_sockaddr(item, src, len) memcpy(__get_rel_dynamic_array(item), (src), (len))
#undef DECLARE_EVENT_CLASS
#define DECLARE_EVENT_CLASS(name, proto, args, tstruct, assign, print) \
	static noinline notrace void trace_event_raw_event_##name(unsigned long event, proto) \
	{ \
		struct trace_event_raw_##name __places = {}, *__entry = &__places; \
		unsigned long __size = sizeof(*__entry) + \
				       trace_event_get_offsets_##name(&__places, args); \
		unsigned long __record[__size > TRACE_EVENT_MAX ? 1 : DIV_ROUND_UP(__size, 8)]; \
		if (__size > TRACE_EVENT_MAX) \
			return; \
		__entry = (void *)__record; \
		*__entry = __places; \
		assign \
		trace_event_commit(event, __entry, __size); \
		barrier(); \
	}
#include __TRACE_INCLUDE(TRACE_INCLUDE_FILE)

/* ---- 5. the text of its print format, in which __get_str() and the like stay as they are */
#include <trace/fields.h>
#define __entry REC
#define TP_printk(fmt, args...) "\"" fmt "\", " __stringify(args)
#undef DECLARE_EVENT_CLASS
#define DECLARE_EVENT_CLASS(name, proto, args, tstruct, assign, print) \
	static const char print_fmt_##name[] = print;
#undef DEFINE_EVENT_PRINT
#define DEFINE_EVENT_PRINT(template, name, proto, args, print) \
	static const char print_fmt_##name[] = print;
#include __TRACE_INCLUDE(TRACE_INCLUDE_FILE)
#undef __entry

/* ---- 6. the events themselves, and their trace points */
#define __TRACE_EVENT_CALL(point, name_, template, format) \
	static const struct trace_event_call __used __section("_ftrace_events") event_##point = { \
		.system = __stringify(TRACE_SYSTEM), \
		.name = #name_, \
		.tp = &__tracepoint_##point, \
		.event = &trace_event_##point, \
		.fields = trace_event_fields_##template, \
		.nr_fields = ARRAY_SIZE(trace_event_fields_##template), \
		.print_fmt = print_fmt_##format, \
	};
#define __TRACE_EVENT(template, name_, proto, args, format, reg, unreg) \
	DEFINE_TRACEPOINT(name_, reg, unreg); \
	static unsigned long trace_event_##name_; \
	notrace void __traceiter_##name_(proto) \
	{ \
		CALL_TRACE_PROBES(name_, PARAMS(proto), PARAMS(args)); \
		if (trace_event_##name_) \
			trace_event_raw_event_##template(trace_event_##name_, args); \
	} \
	__TRACE_EVENT_CALL(name_, name_, template, format)
#undef DECLARE_EVENT_CLASS
#define DECLARE_EVENT_CLASS(name, proto, args, tstruct, assign, print)
#undef DEFINE_EVENT_FN
#define DEFINE_EVENT_FN(template, name, proto, args, reg, unreg) \
	__TRACE_EVENT(template, name, PARAMS(proto), PARAMS(args), template, reg, unreg)
#undef DEFINE_EVENT_PRINT
#define DEFINE_EVENT_PRINT(template, name, proto, args, print) \
	__TRACE_EVENT(template, name, PARAMS(proto), PARAMS(args), name, NULL, NULL)
#undef DEFINE_CUSTOM_EVENT
#define DEFINE_CUSTOM_EVENT(template, name_, proto, args) \
	static unsigned long trace_event_custom_##name_; \
	static struct tracepoint *custom_point_##name_; \
	static notrace void custom_probe_##name_(void *__data, proto) \
	{ \
		if (trace_event_custom_##name_) \
			trace_event_raw_event_custom_##template(trace_event_custom_##name_, args); \
	} \
	static int custom_reg_##name_(void) \
	{ \
		check_trace_callback_type_##name_(custom_probe_##name_); \
		return custom_point_##name_ ? \
			       tracepoint_probe_register(custom_point_##name_, \
							 custom_probe_##name_, NULL) : \
			       -EINVAL; \
	} \
	static void custom_unreg_##name_(void) \
	{ \
		tracepoint_probe_unregister(custom_point_##name_, custom_probe_##name_, NULL); \
	} \
	static inline int trace_custom_event_##name_##_update(struct tracepoint *tp) \
	{ \
		if (strcmp(tp->name, #name_)) \
			return 0; \
		custom_point_##name_ = tp; \
		return 1; \
	} \
	DEFINE_TRACEPOINT(custom_##name_, custom_reg_##name_, custom_unreg_##name_); \
	__TRACE_EVENT_CALL(custom_##name_, name_, custom_##template, custom_##template)
#undef DECLARE_TRACE
#define DECLARE_TRACE(name, proto, args) DEFINE_TRACE(name, PARAMS(proto), PARAMS(args))
#include __TRACE_INCLUDE(TRACE_INCLUDE_FILE)
#undef DECLARE_TRACE
#define DECLARE_TRACE(name, proto, args) \
	DECLARE_TRACE_CONDITION(name, PARAMS(proto), PARAMS(args), true)

#include <trace/declare.h>
#undef TRACE_HEADER_MULTI_READ
#ifdef KPFS_TRACE_INCLUDE_FILE
#undef TRACE_INCLUDE_FILE
#undef KPFS_TRACE_INCLUDE_FILE
#endif
#define CREATE_TRACE_POINTS
#endif
