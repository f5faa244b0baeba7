// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Records of synthetic events. Each is made aside, in a buffer of its own, and given to
 * the recorder when its fields have been filled in; preemption is off meanwhile.
 */
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/trace_events.h>
#include <linux/uaccess.h>

#define STR_VAR_LEN_MAX 256
#define FAULT_STRING "(fault)"
#define BUFFERS 4 /* of a CPU: a record may be made while another is */
#define ENOTSUPP 524

/* Written by engine/trace/synth/synth_event.py. */
struct synth_field {
	const char *name;
	unsigned int size;
	unsigned int offset; /* in words of 64 bits */
	unsigned int flags;
	unsigned int pad;
};
#define FIELD_STRING 1
#define FIELD_DYNAMIC 2
struct synth_event {
	unsigned int id, n_fields, n_dynamic_fields, n_u64;
	struct synth_field fields[];
};

struct synth_trace_event {
	struct trace_entry ent;
	u64 fields[];
};

static struct synth_buffer { char data[PAGE_SIZE]; } synth_buffers[NR_CPUS][BUFFERS];
static unsigned char synth_buffers_used[NR_CPUS][BUFFERS];

static notrace struct synth_trace_event *get_buffer(void)
{
	int cpu = smp_processor_id(), i;

	for (i = 0; i < BUFFERS; i++)
		if (!synth_buffers_used[cpu][i]) {
			synth_buffers_used[cpu][i] = 1;
			return (struct synth_trace_event *)&synth_buffers[cpu][i];
		}
	return NULL;
}

static notrace void put_buffer(struct synth_trace_event *entry)
{
	(&synth_buffers_used[0][0])[(struct synth_buffer *)entry - &synth_buffers[0][0]] = 0;
}

/* Begin a record, if one is wanted, with an entry or without. */
static notrace int trace_start(struct trace_event_file *file, struct synth_event_trace_state *state,
			       unsigned long dynamic_size)
{
	int ret;

	state->size = sizeof(*state->entry) + state->event->n_u64 * sizeof(u64) + dynamic_size;
	preempt_disable();
	ret = file->begin(file, state->size);
	if (ret > 0) {
		state->entry = get_buffer();
		if (state->entry) {
			memset(state->entry, 0, state->size);
			state->entry->ent.head = state->event->id;
			return 0;
		}
		ret = -EINVAL;
	}
	preempt_enable();
	state->disabled = !ret;
	return ret;
}

/* End a record. The caller stands at the head of a stack trace of it. */
static __always_inline void trace_end(struct synth_event_trace_state *state)
{
	if (!state->entry)
		return;
	state->file->commit(state->file, state->entry, state->size);
	put_buffer(state->entry);
	state->entry = NULL;
	preempt_enable();
}

static notrace int trace_init(struct trace_event_file *file, struct synth_event_trace_state *state)
{
	memset(state, 0, sizeof(*state));
	state->file = file;
	state->event = file->event;
	return state->event ? 0 : -EINVAL;
}

static notrace void put_number(struct synth_trace_event *entry, const struct synth_field *field,
			       u64 val)
{
	u64 *at = &entry->fields[field->offset];

	if (field->size == 1)
		*(u8 *)at = val;
	else if (field->size == 2)
		*(u16 *)at = val;
	else if (field->size == 4)
		*(u32 *)at = val;
	else
		*at = val;
}

/* Put a string behind the rest of the record; return the bytes used so far. */
static notrace unsigned long put_dynamic(struct synth_event_trace_state *state,
					 const struct synth_field *field, const char *str,
					 unsigned long used)
{
	unsigned long at = sizeof(*state->entry) + state->event->n_u64 * sizeof(u64) + used;
	unsigned long size = strlen(str) + 1;

	/* it may have grown since it was measured */
	size = min(size, state->size - at);
	memcpy((char *)state->entry + at, str, size);
	*(u32 *)&state->entry->fields[field->offset] = size << 16 | at;
	return used + size;
}

static notrace void put_static(struct synth_trace_event *entry, const struct synth_field *field,
			       const char *str)
{
	char *at = (char *)&entry->fields[field->offset];

	if (strncpy_from_kernel_nofault(at, str, STR_VAR_LEN_MAX) < 0)
		strcpy(at, FAULT_STRING);
}

static notrace unsigned long dynamic_size(const struct synth_event *event, const u64 *vals,
					  unsigned int n_vals)
{
	unsigned long size = 0;

	for (unsigned int i = 0; i < event->n_fields && i < n_vals; i++)
		if (event->fields[i].flags & FIELD_DYNAMIC && event->fields[i].flags & FIELD_STRING)
			size += strlen((const char *)vals[i]) + 1;
	return size;
}

static notrace int trace_vals(struct synth_event_trace_state *state, const u64 *vals,
			      unsigned int n_vals)
{
	const struct synth_event *event = state->event;
	unsigned long used = 0;

	if (n_vals != event->n_fields)
		return -EINVAL;
	for (unsigned int i = 0; i < n_vals; i++) {
		const struct synth_field *field = &event->fields[i];

		if (!(field->flags & FIELD_STRING))
			put_number(state->entry, field, vals[i]);
		else if (field->flags & FIELD_DYNAMIC)
			used = put_dynamic(state, field, (const char *)vals[i], used);
		else
			put_static(state->entry, field, (const char *)vals[i]);
	}
	return 0;
}

/* Record an array of values. As on Linux, if they are too few or too many, they are left out. */
static __always_inline int trace_array(struct trace_event_file *file, const u64 *vals,
				       unsigned int n_vals)
{
	struct synth_event_trace_state state;
	int ret = trace_init(file, &state);

	ret = ret ?: trace_start(file, &state, dynamic_size(state.event, vals, n_vals));
	if (ret || state.disabled)
		return ret;
	ret = trace_vals(&state, vals, n_vals);
	trace_end(&state);
	return ret;
}

notrace int synth_event_trace(struct trace_event_file *file, unsigned int n_vals, ...)
{
	u64 vals[64];
	va_list args;

	va_start(args, n_vals);
	for (unsigned int i = 0; i < n_vals && i < ARRAY_SIZE(vals); i++)
		vals[i] = va_arg(args, u64);
	va_end(args);
	return not_tail(trace_array(file, vals, n_vals));
}

notrace int synth_event_trace_array(struct trace_event_file *file, u64 *vals, unsigned int n_vals)
{
	return not_tail(trace_array(file, vals, n_vals));
}

/* ---- field by field */

notrace int synth_event_trace_start(struct trace_event_file *file,
				    struct synth_event_trace_state *trace_state)
{
	int ret;

	if (!trace_state)
		return -EINVAL;
	ret = trace_init(file, trace_state);
	if (ret)
		return ret;
	if (!trace_state->event->n_dynamic_fields)
		return trace_start(file, trace_state, 0);
	trace_state->disabled = !file->begin(file, 0);
	return trace_state->disabled ? 0 : -ENOTSUPP;
}

/* Return the field of a name. As on Linux, an unknown name is taken for the last field's. */
static notrace const struct synth_field *named_field(const struct synth_event *event,
						     const char *name)
{
	unsigned int i;

	for (i = 0; i < event->n_fields - 1; i++)
		if (!strcmp(event->fields[i].name, name))
			break;
	return &event->fields[i];
}

static notrace int add_val(const char *name, u64 val, struct synth_event_trace_state *state)
{
	const struct synth_field *field;

	if (!state || (name ? state->add_next : state->add_name))
		return -EINVAL;
	*(name ? &state->add_name : &state->add_next) = true;
	if (state->disabled)
		return 0;
	if (!state->entry || (!name && state->cur_field >= state->event->n_fields))
		return -EINVAL;
	field = name ? named_field(state->event, name) : &state->event->fields[state->cur_field++];
	if (!(field->flags & FIELD_STRING)) {
		put_number(state->entry, field, val);
		return 0;
	}
	if (field->flags & FIELD_DYNAMIC || !val)
		return -EINVAL;
	strscpy((char *)&state->entry->fields[field->offset], (const char *)val, STR_VAR_LEN_MAX);
	return 0;
}

notrace int synth_event_add_next_val(u64 val, struct synth_event_trace_state *trace_state)
{
	return add_val(NULL, val, trace_state);
}

notrace int synth_event_add_val(const char *field_name, u64 val,
				struct synth_event_trace_state *trace_state)
{
	return add_val(field_name, val, trace_state);
}

notrace int synth_event_trace_end(struct synth_event_trace_state *trace_state)
{
	if (!trace_state)
		return -EINVAL;
	trace_end(trace_state);
	barrier();
	return 0;
}
