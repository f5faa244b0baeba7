/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Events of trace points. guest/running/trace_events.py reads their descriptions from the section
 * _ftrace_events, puts the address of what an enabled event is known by to its recorder
 * into *event, and switches the key of the trace point. trace_event_commit is the recorder's.
 */
#pragma once
#include <linux/err.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/percpu.h>
#include <linux/seq_buf.h>
#include <linux/slab.h>
#include <linux/tracepoint.h>
#include <linux/types.h>

struct module;

#define is_signed_type(type) ((type)-1 < (type)1)

#define TRACE_EVENT_STR_MAX 512 /* bytes of a __vstring */
#define __vstring_size(fmt, args) \
	min(with_copied_va_list(__args, args, vsnprintf(NULL, 0, fmt, __args)) + 1, \
	    TRACE_EVENT_STR_MAX)

/* Filled in by the recorder: type, flags, preempt count and pid. */
struct trace_entry { unsigned long head; };

/* offset 0: behind the field before, at a multiple of align. */
struct trace_event_field {
	const char *type, *name;
	unsigned short offset, size, is_signed, align;
};
/* A name that print formats use, and its value, for the events of a system. */
struct trace_eval_map {
	const char *system, *name;
	long value;
	unsigned long pad; /* 32 bytes, so that they lie close in their section */
};
struct trace_event_call {
	const char *system, *name;
	struct tracepoint *tp;
	unsigned long *event;
	const struct trace_event_field *fields;
	unsigned long nr_fields;
	const char *print_fmt;
	unsigned long pad; /* 64 bytes, so that they lie close in their section */
};
#ifndef TRACE_CUSTOM_EVENT /* until trace/define_custom_trace.h gives them a meaning */
#define DECLARE_CUSTOM_EVENT_CLASS(name, proto, args, tstruct, assign, print)
#define DEFINE_CUSTOM_EVENT(template, name, proto, args)
#define TRACE_CUSTOM_EVENT(name, proto, args, tstruct, assign, print)
#endif
extern void (*trace_event_commit)(unsigned long event, void *record, unsigned long size);

/*
 * struct trace_event_raw_EVENT, and trace_event_fields_EVENT that describes it. fields(f) lists
 * the fields, each as f(event, type, name, dimension).
 */
#define TRACE_EVENT_FIELDS(event, fields) \
	struct trace_event_raw_##event { struct trace_entry ent; fields(__TRACE_MEMBER) }; \
	static const struct trace_event_field trace_event_fields_##event[] = { fields(__TRACE_FIELD) }
#define __TRACE_MEMBER(event, type, name, dimension) type name dimension;
#define __TRACE_FIELD(event, type, name, dimension) \
	{ #type, #name #dimension, offsetof(struct trace_event_raw_##event, name), \
	  sizeof_field(struct trace_event_raw_##event, name), is_signed_type(type), 0 },

/*
 * The description of an event whose fields are in trace_event_fields_EVENT, and the word
 * that is not 0 while it is enabled.
 */
#define DEFINE_TRACE_EVENT(system_, event, tracepoint, fmt) \
	static unsigned long trace_event_##event; \
	static const struct trace_event_call __used __section("_ftrace_events") event_##event = { \
		#system_, #event, &__tracepoint_##tracepoint, &trace_event_##event, \
		trace_event_fields_##event, ARRAY_SIZE(trace_event_fields_##event), fmt }

/*
 * An event in a trace array. It is the recorder's: struct kp_file of runtime/runtime.h.
 * begin: 1: a record of size bytes is wanted, 0: none is, or -EINVAL; commit writes it.
 */
struct trace_array;
struct synth_event;
struct trace_event_file {
	unsigned long next, flags;
	struct trace_array *tr;
	unsigned long filter, triggers;
	struct synth_event *event; /* NULL: the event is of another kind */
	long (*begin)(struct trace_event_file *file, unsigned long size);
	void (*commit)(struct trace_event_file *file, void *record, unsigned long size);
};

struct trace_event_file *trace_get_event_file(const char *instance, const char *system,
					      const char *event);
void trace_put_event_file(struct trace_event_file *file);
int trace_array_set_clr_event(struct trace_array *tr, const char *system, const char *event,
			      bool enable);

/* ---- commands that make dynamic events */

#define MAX_DYNEVENT_CMD_LEN 2048

enum dynevent_type { DYNEVENT_TYPE_SYNTH = 1, DYNEVENT_TYPE_KPROBE, DYNEVENT_TYPE_NONE };

struct dynevent_cmd;
typedef int (*dynevent_create_fn_t)(struct dynevent_cmd *cmd);
struct dynevent_cmd {
	struct seq_buf seq;
	const char *event_name;
	unsigned int n_fields;
	enum dynevent_type type;
	dynevent_create_fn_t run_command;
	void *private_data;
};
int dynevent_create(struct dynevent_cmd *cmd);

/* ---- synthetic events */

struct synth_field_desc { const char *type, *name; };
void synth_event_cmd_init(struct dynevent_cmd *cmd, char *buf, int maxlen);
int __synth_event_gen_cmd_start(struct dynevent_cmd *cmd, const char *name, struct module *mod,
				...);
#define synth_event_gen_cmd_start(cmd, name, mod, ...) \
	__synth_event_gen_cmd_start(cmd, name, mod, ##__VA_ARGS__, NULL)
int synth_event_gen_cmd_array_start(struct dynevent_cmd *cmd, const char *name, struct module *mod,
				    struct synth_field_desc *fields, unsigned int n_fields);
int synth_event_add_field(struct dynevent_cmd *cmd, const char *type, const char *name);
int synth_event_add_field_str(struct dynevent_cmd *cmd, const char *type_name);
int synth_event_add_fields(struct dynevent_cmd *cmd, struct synth_field_desc *fields,
			   unsigned int n_fields);
#define synth_event_gen_cmd_end(cmd) dynevent_create(cmd)
int synth_event_create(const char *name, struct synth_field_desc *fields, unsigned int n_fields,
		       struct module *mod);
int synth_event_delete(const char *name);

struct synth_trace_event;
struct synth_event_trace_state {
	struct trace_event_file *file;
	struct synth_trace_event *entry; /* NULL: nothing is to be recorded */
	struct synth_event *event;
	unsigned long size;
	unsigned int cur_field;
	bool disabled, add_next, add_name;
};
int synth_event_trace(struct trace_event_file *file, unsigned int n_vals, ...);
int synth_event_trace_array(struct trace_event_file *file, u64 *vals, unsigned int n_vals);
int synth_event_trace_start(struct trace_event_file *file,
			    struct synth_event_trace_state *trace_state);
int synth_event_add_next_val(u64 val, struct synth_event_trace_state *trace_state);
int synth_event_add_val(const char *field_name, u64 val,
			struct synth_event_trace_state *trace_state);
int synth_event_trace_end(struct synth_event_trace_state *trace_state);
