// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The interface of trace events for modules: the file of an event, switching it, and commands that
 * define synthetic events. The meaning of a command is known outside the guest.
 */
#include <kpfs/control.h>
#include <linux/hostfs.h>
#include <linux/module.h>
#include <linux/string.h>
#include <linux/trace_events.h>

#define SYNTH_FIELDS_MAX 64
#define DIRS_AT_ONCE 16

/*
 * Make and remove the directories of events that have come or gone outside, and call functions of
 * trace points that have got their first user, or lost the last. Python calls it, too.
 */
notrace void update_event_dirs(void)
{
	struct kpfs_trace_dir dirs[DIRS_AT_ONCE], *d;
	long count;

	for (d = dirs; d < dirs + DIRS_AT_ONCE; d++)
		d->made = NULL;
	while ((count = kpfs_control(CTL_TRACE_DIR, (unsigned long)dirs, DIRS_AT_ONCE)) > 0) {
		for (d = dirs; d < dirs + count; d++) {
			if (d->call)
				d->call();
			else if (d->remove)
				tracefs_remove(d->remove);
			else
				d->made = tracefs_create_dir(d->name, d->parent);
		}
	}
}

notrace struct trace_event_file *trace_get_event_file(const char *instance, const char *system,
						      const char *event)
{
	const char *const words[] = { instance, system, event };

	might_sleep();
	return (struct trace_event_file *)kpfs_control(CTL_TRACE_GET_FILE, (unsigned long)words, 0);
}

notrace void trace_put_event_file(struct trace_event_file *file)
{
	might_sleep();
	kpfs_control(CTL_TRACE_PUT_FILE, (unsigned long)file, 0);
}

notrace int trace_array_set_clr_event(struct trace_array *tr, const char *system, const char *event,
				      bool enable)
{
	struct kpfs_set_clr what = { tr, system, event, enable };

	int ret;

	might_sleep();
	if (!tr)
		return -ENOENT;
	ret = kpfs_control(CTL_TRACE_SET_CLR, (unsigned long)&what, 0);
	update_event_dirs();
	return ret;
}

/* ---- commands */

static noinline notrace int cmd_add(struct dynevent_cmd *cmd, const char *a, const char *b,
				    char separator)
{
	struct seq_buf *s = &cmd->seq;

	if (s->len < s->size) {
		size_t len = snprintf(s->buffer + s->len, s->size - s->len, " %s%s%s%c", a,
				      b ? " " : "", b ?: "", separator);

		if (s->len + len < s->size) {
			s->len += len;
			return 0;
		}
	}
	s->len = s->size + 1;
	pr_err("%s is too long: %s%s%s%c\n", b ? "field string" : "String", a, b ? " " : "",
	       b ?: "", separator);
	return -E2BIG;
}

noinline notrace int dynevent_create(struct dynevent_cmd *cmd)
{
	return cmd->run_command(cmd);
}

static notrace int synth_event_run_command(struct dynevent_cmd *cmd)
{
	const void *const words[] = { cmd->seq.buffer, cmd->event_name, cmd->private_data };
	int ret;

	might_sleep();
	ret = kpfs_control(CTL_SYNTH_COMMAND, (unsigned long)words, 0);
	update_event_dirs();
	return ret;
}

noinline notrace void synth_event_cmd_init(struct dynevent_cmd *cmd, char *buf, int maxlen)
{
	memset(cmd, 0, sizeof(*cmd));
	cmd->seq.buffer = buf;
	cmd->seq.size = maxlen;
	cmd->type = DYNEVENT_TYPE_SYNTH;
	cmd->run_command = synth_event_run_command;
}

static notrace int count_field(struct dynevent_cmd *cmd)
{
	return ++cmd->n_fields > SYNTH_FIELDS_MAX ? -EINVAL : 0;
}

/* Return true for a type that has a size, or may be of any length. */
static notrace bool type_may_be(const char *type)
{
	return kpfs_control(CTL_SYNTH_SIZE, (unsigned long)type, 0) || strchr(type, '[');
}

notrace int synth_event_add_field(struct dynevent_cmd *cmd, const char *type, const char *name)
{
	int ret;

	if (cmd->type != DYNEVENT_TYPE_SYNTH || !type || !name || !type_may_be(type))
		return -EINVAL;
	ret = cmd_add(cmd, type, name, ';');
	return ret ?: count_field(cmd);
}

notrace int synth_event_add_field_str(struct dynevent_cmd *cmd, const char *type_name)
{
	int ret;

	if (cmd->type != DYNEVENT_TYPE_SYNTH || !type_name)
		return -EINVAL;
	ret = cmd_add(cmd, type_name, NULL, ';');
	return ret ?: count_field(cmd);
}

noinline notrace int synth_event_add_fields(struct dynevent_cmd *cmd,
					    struct synth_field_desc *fields, unsigned int n_fields)
{
	int ret = 0;

	for (unsigned int i = 0; i < n_fields && !ret; i++)
		ret = synth_event_add_field(cmd, fields[i].type, fields[i].name);
	return ret;
}

static notrace int cmd_start(struct dynevent_cmd *cmd, const char *name, struct module *mod)
{
	cmd->event_name = name;
	cmd->private_data = mod;
	return cmd->type != DYNEVENT_TYPE_SYNTH ? -EINVAL : cmd_add(cmd, name, NULL, ' ');
}

/* Begin a command. As on Linux, fields that are given here count twice. */
notrace int __synth_event_gen_cmd_start(struct dynevent_cmd *cmd, const char *name,
					struct module *mod, ...)
{
	const char *type, *field;
	va_list args;
	int ret = cmd_start(cmd, name, mod);

	va_start(args, mod);
	while (!ret && (type = va_arg(args, const char *)) && (field = va_arg(args, const char *)))
		ret = count_field(cmd) ?: synth_event_add_field(cmd, type, field);
	va_end(args);
	return ret;
}

noinline notrace int synth_event_gen_cmd_array_start(struct dynevent_cmd *cmd, const char *name,
						     struct module *mod,
						     struct synth_field_desc *fields,
						     unsigned int n_fields)
{
	int ret;

	if (n_fields > SYNTH_FIELDS_MAX)
		return -EINVAL;
	ret = cmd_start(cmd, name, mod);
	return ret ?: synth_event_add_fields(cmd, fields, n_fields);
}

notrace int synth_event_create(const char *name, struct synth_field_desc *fields,
			       unsigned int n_fields, struct module *mod)
{
	char *buf = kzalloc(MAX_DYNEVENT_CMD_LEN, GFP_KERNEL);
	struct dynevent_cmd cmd;
	int ret;

	if (!buf)
		return -ENOMEM;
	synth_event_cmd_init(&cmd, buf, MAX_DYNEVENT_CMD_LEN);
	ret = synth_event_gen_cmd_array_start(&cmd, name, mod, fields, n_fields);
	ret = ret ?: synth_event_gen_cmd_end(&cmd);
	kfree(buf);
	return ret;
}

notrace int synth_event_delete(const char *name)
{
	int ret;

	might_sleep();
	ret = kpfs_control(CTL_SYNTH_DELETE, (unsigned long)name, 0);
	update_event_dirs();
	return ret;
}
