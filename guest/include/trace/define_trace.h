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
	DECLARE_EVENT_CLASS(name, PARAMS(proto), PARAMS(args), PARAMS(tstruct), \
			    PARAMS(assign), PARAMS(print)) \
	DEFINE_EVENT(name, name, PARAMS(proto), PARAMS(args))
#undef TRACE_EVENT_CONDITION
#define TRACE_EVENT_CONDITION(name, proto, args, cond, tstruct, assign, print) \
	TRACE_EVENT(name, PARAMS(proto), PARAMS(args), PARAMS(tstruct), PARAMS(assign), \
		    PARAMS(print))
#undef DEFINE_EVENT_CONDITION
#define DEFINE_EVENT_CONDITION(template, name, proto, args, cond) \
	DEFINE_EVENT(template, name, PARAMS(proto), PARAMS(args))

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
#define __dynamic_array(type, item, len) u32 __data_loc_##item;
#undef DECLARE_EVENT_CLASS
#define DECLARE_EVENT_CLASS(name, proto, args, tstruct, assign, print) \
	struct trace_event_raw_##name { \
		struct trace_entry ent; \
		tstruct \
		char __data[]; \
	};
#undef DEFINE_EVENT
#define DEFINE_EVENT(template, name, proto, args)
#undef DEFINE_EVENT_PRINT
#define DEFINE_EVENT_PRINT(template, name, proto, args, print)
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
#define __dynamic_array(type, item, len) \
	{ \
		u32 __length = (len) * sizeof(type); \
		__entry->__data_loc_##item = \
			(__size + offsetof(__typeof__(*__entry), __data)) | __length << 16; \
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
#define __dynamic_array(type, item, len) \
	{ "__data_loc " #type "[]", #item, 0, 4, is_signed_type(type), 4 },
#undef DECLARE_EVENT_CLASS
#define DECLARE_EVENT_CLASS(name, proto, args, tstruct, assign, print) \
	static const struct trace_event_field trace_event_fields_##name[] = { tstruct };
#include __TRACE_INCLUDE(TRACE_INCLUDE_FILE)

/* ---- 4. the function that makes a record */
#include <trace/fields.h>
#define __field_ext(type, item, filter_type)
#define __field_struct_ext(type, item, filter_type)
#define __array(type, item, len)
#define __dynamic_array(type, item, len)
#define __get_dynamic_array(item) ((void *)__entry + (__entry->__data_loc_##item & 0xffff))
#define __get_dynamic_array_len(item) (__entry->__data_loc_##item >> 16)
#define __get_str(item) ((char *)__get_dynamic_array(item))
#define __get_bitmask(item) ((char *)__get_dynamic_array(item))
#define __get_cpumask(item) ((char *)__get_dynamic_array(item))
#define __assign_str(item, src) strcpy(__get_str(item), (src) ? (const char *)(src) : "(null)")
#define __assign_str_len(item, src, len) \
	do { \
		memcpy(__get_str(item), (src), (len)); \
		__get_str(item)[len] = 0; \
	} while (0)
#define __assign_bitmask(item, src, nr_bits) \
	memcpy(__get_bitmask(item), (src), BITS_TO_LONGS(nr_bits) * sizeof(long))
#define __assign_cpumask(item, src) \
	memcpy(__get_cpumask(item), (src), BITS_TO_LONGS(nr_cpu_ids) * sizeof(long))
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
#define __TRACE_EVENT(template, name_, proto, args, format) \
	DEFINE_TRACE(name_); \
	static unsigned long trace_event_##name_; \
	notrace void __traceiter_##name_(proto) \
	{ \
		trace_event_raw_event_##template(trace_event_##name_, args); \
	} \
	static const struct trace_event_call __used __section("_ftrace_events") event_##name_ = { \
		.system = __stringify(TRACE_SYSTEM), \
		.name = #name_, \
		.key = &__tracepoint_##name_, \
		.event = &trace_event_##name_, \
		.fields = trace_event_fields_##template, \
		.nr_fields = ARRAY_SIZE(trace_event_fields_##template), \
		.print_fmt = print_fmt_##format, \
	};
#undef DECLARE_EVENT_CLASS
#define DECLARE_EVENT_CLASS(name, proto, args, tstruct, assign, print)
#undef DEFINE_EVENT
#define DEFINE_EVENT(template, name, proto, args) \
	__TRACE_EVENT(template, name, PARAMS(proto), PARAMS(args), template)
#undef DEFINE_EVENT_PRINT
#define DEFINE_EVENT_PRINT(template, name, proto, args, print) \
	__TRACE_EVENT(template, name, PARAMS(proto), PARAMS(args), name)
#include __TRACE_INCLUDE(TRACE_INCLUDE_FILE)

#include <trace/declare.h>
#undef TRACE_HEADER_MULTI_READ
#ifdef KPFS_TRACE_INCLUDE_FILE
#undef TRACE_INCLUDE_FILE
#undef KPFS_TRACE_INCLUDE_FILE
#endif
#define CREATE_TRACE_POINTS
#endif
