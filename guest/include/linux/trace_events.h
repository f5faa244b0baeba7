/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Events of trace points. guest/trace_events.py reads their descriptions from the section
 * _ftrace_events, puts the address of what an enabled event is known by to its recorder
 * into *event, and switches the key. trace_event_commit is the recorder's.
 */
#ifndef _LINUX_TRACE_EVENTS_H
#define _LINUX_TRACE_EVENTS_H
#include <linux/tracepoint.h>
#include <linux/types.h>

/* Filled in by the recorder: type, flags, preempt count and pid. */
struct trace_entry { unsigned long head; };

struct trace_event_field {
	const char *type, *name;
	unsigned short offset, size, is_signed, pad[1];
};
struct trace_event_call {
	const char *system, *name;
	struct static_key_false *key;
	unsigned long *event;
	const struct trace_event_field *fields;
	unsigned long nr_fields;
	const char *print_fmt;
	unsigned long pad; /* 64 bytes, so that they lie close in their section */
};
extern void (*trace_event_commit)(unsigned long event, void *record, unsigned long size);

/* A field of struct trace_event_raw_EVENT; text of its type and of its name. */
#define TRACE_FIELD(event, member, type_text, name_text, is_signed_) \
	{ type_text, name_text, offsetof(struct trace_event_raw_##event, member), \
	  sizeof_field(struct trace_event_raw_##event, member), is_signed_, { 0 } }

/*
 * The description of an event whose fields are in trace_event_fields_EVENT, and the word
 * that is not 0 while it is enabled.
 */
#define DEFINE_TRACE_EVENT(system_, event, tracepoint, fmt) \
	static unsigned long trace_event_##event; \
	static const struct trace_event_call __used __section("_ftrace_events") event_##event = { \
		#system_, #event, &__tracepoint_##tracepoint, &trace_event_##event, \
		trace_event_fields_##event, ARRAY_SIZE(trace_event_fields_##event), fmt }
#endif
