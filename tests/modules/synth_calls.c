// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Makes and fires synthetic events, and says in the log what each call answered. It uses
 * nothing but Linux's interface, so that a real kernel can be asked the same.
 *
 *   what=...      one of the functions in the table at the end
 *   event=NAME instance=NAME    whose file it uses
 */
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/trace_events.h>

static char *what = "array";
module_param(what, charp, 0444);
static char *event = "fired";
module_param(event, charp, 0444);
static char *instance;
module_param(instance, charp, 0444);
static int times = 1;
module_param(times, int, 0444);

static struct trace_event_file *file;

#define SAY(call) pr_info("synth: %s = %ld\n", #call, (long)(call))
#define PTR(p) ((u64)(long)(p))

/* s: u64 v; s64 lat; pid_t pid; char[8] s; char[] d; u8 small; s8 neg; s16 h; gfp_t g; bool b; char[] e */
static void fire_array(void)
{
	u64 vals[] = { 5,       (u64)-5,  (u64)-7, PTR("four"), PTR("dynamic string"), 255, (u64)-1,
		       (u64)-2, 0x500dc2, 1,       PTR("") };
	int i;

	for (i = 0; i < times; i++) {
		vals[0] = 5 + i;
		SAY(synth_event_trace_array(file, vals, ARRAY_SIZE(vals)));
	}
}

static void fire_varargs(void)
{
	SAY(synth_event_trace(file, 11, (u64)1 << 63, (u64)1 << 63, (u64)0x1ffffffff,
			      PTR("longer than its field"), PTR("d"), (u64)0x101, (u64)0x7f,
			      (u64)0x12345, (u64)0, (u64)0, PTR("end")));
}

/* s: long[] st; u64 a; u64 b; int n: what stands in place of a stack says where it is, that is in a */
static void fire_stack(void)
{
	SAY(synth_event_trace(file, 4, (u64)16 << 16 | 16, PTR(schedule), (u64)0, (u64)4));
	SAY(synth_event_trace(file, 4, (u64)8 << 16 | 16, PTR(schedule), (u64)0, (u64)4));
	SAY(synth_event_trace(file, 4, (u64)0, PTR(schedule), (u64)0, (u64)4));
}

static void fire_wrong_number(void)
{
	u64 vals[11] = { 0 };

	vals[4] = vals[10] = vals[3] = PTR("x");
	SAY(synth_event_trace_array(file, vals, 10));
}

/* s: u64 v; s16 h; char[8] s; int n; gfp_t g */
static void fire_steps(void)
{
	struct synth_event_trace_state state;
	int ret = synth_event_trace_start(file, &state);

	pr_info("synth: start = %d\n", ret);
	if (ret)
		return;
	SAY(synth_event_add_next_val(1, &state));
	SAY(synth_event_add_next_val(0x12345, &state));
	SAY(synth_event_add_next_val(PTR("steps"), &state));
	SAY(synth_event_add_val("n", 1, &state));
	SAY(synth_event_add_next_val(-3, &state));
	SAY(synth_event_add_next_val(0xcc0, &state));
	SAY(synth_event_add_next_val(0, &state));
	SAY(synth_event_trace_end(&state));
}

static void fire_names(void)
{
	struct synth_event_trace_state state;
	int ret = synth_event_trace_start(file, &state);

	pr_info("synth: start = %d\n", ret);
	if (ret)
		return;
	SAY(synth_event_add_val("n", -4, &state));
	SAY(synth_event_add_val("nosuch", 0x20, &state));
	SAY(synth_event_add_val("s", 0, &state));
	SAY(synth_event_add_val("s", PTR("longer than its field"), &state));
	SAY(synth_event_add_next_val(0, &state));
	SAY(synth_event_add_val("h", 77, &state));
	SAY(synth_event_add_val("v", 8, &state));
	SAY(synth_event_trace_end(&state));
}

/* An event that is off, or has strings of any length: Linux 6.1 does not survive its end. */
static void fire_start(void)
{
	struct synth_event_trace_state state;
	int ret = synth_event_trace_start(file, &state);

	pr_info("synth: start = %d\n", ret);
	SAY(synth_event_trace_start(file, NULL));
	SAY(synth_event_trace_end(NULL));
	if (ret)
		return;
	SAY(synth_event_add_next_val(0, &state));
	SAY(synth_event_add_val("v", 0, &state));
}

static void hold(void) {}

/* ---- making */

static struct synth_field_desc made_fields[] = {
	{ .type = "u64", .name = "v" },
	{ .type = "char[]", .name = "d" },
};
static struct synth_field_desc bad_type[] = { { .type = "nosuch", .name = "v" } };
static struct synth_field_desc bad_array[] = { { .type = "u64", .name = "v" },
					       { .type = "char[999]", .name = "v" } };
static struct synth_field_desc no_name[] = { { .type = "u64" } };
static struct synth_field_desc many[65];
static char long_name[2100];

static void try_command(struct dynevent_cmd *cmd, char *buf)
{
	synth_event_cmd_init(cmd, buf, MAX_DYNEVENT_CMD_LEN);
	SAY(synth_event_gen_cmd_start(cmd, "made4", THIS_MODULE, "u64", "a", "unsigned int", "b"));
	SAY(synth_event_add_field(cmd, "nosuch", "c"));
	SAY(synth_event_add_field(cmd, "long", NULL));
	SAY(synth_event_add_field_str(cmd, "long d"));
	SAY(synth_event_add_field(cmd, "char[]", "e"));
	SAY(synth_event_gen_cmd_end(cmd));
	SAY(synth_event_gen_cmd_end(cmd));
	synth_event_cmd_init(cmd, buf, 16);
	SAY(synth_event_gen_cmd_start(cmd, "made5", THIS_MODULE, "u64", "a"));
	SAY(synth_event_gen_cmd_start(cmd, "made5", THIS_MODULE, "u64", "a"));
	cmd->type = DYNEVENT_TYPE_KPROBE;
	SAY(synth_event_add_field(cmd, "u64", "c"));
}

static void make(void)
{
	struct dynevent_cmd cmd;
	char *buf = kzalloc(MAX_DYNEVENT_CMD_LEN, GFP_KERNEL);
	int i;

	for (i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = made_fields[0];
	for (i = 0; i < sizeof(long_name) - 1; i++)
		long_name[i] = 'a';
	SAY(synth_event_create("made1", made_fields, 2, THIS_MODULE));
	SAY(synth_event_create("made1", made_fields, 2, THIS_MODULE));
	SAY(synth_event_create("made2", made_fields, 1, NULL));
	SAY(synth_event_create("bad-name", made_fields, 1, THIS_MODULE));
	SAY(synth_event_create("made3", bad_type, 1, THIS_MODULE));
	SAY(synth_event_create("made3", bad_array, 2, THIS_MODULE));
	SAY(synth_event_create("made3", no_name, 1, THIS_MODULE));
	SAY(synth_event_create("made3", many, 64, THIS_MODULE));
	SAY(synth_event_create("made6", many, 65, THIS_MODULE));
	SAY(synth_event_create("made6", made_fields, 0, THIS_MODULE));
	SAY(synth_event_create(long_name, made_fields, 1, THIS_MODULE));
	try_command(&cmd, buf);
	kfree(buf);
	SAY(PTR_ERR(trace_get_event_file(NULL, "synthetic", "nosuch")));
	SAY(PTR_ERR(trace_get_event_file(NULL, "nosuch", "made1")));
	SAY(PTR_ERR(trace_get_event_file("nosuch", "synthetic", "made1")));
	SAY(synth_event_delete("nosuch"));
	SAY(synth_event_delete("made2"));
	SAY(synth_event_delete("made2"));
	file = trace_get_event_file(NULL, "synthetic", "made1");
	if (IS_ERR(file))
		return;
	SAY(synth_event_delete("made1"));
	SAY(trace_array_set_clr_event(file->tr, "synthetic", "made1", true));
	SAY(trace_array_set_clr_event(file->tr, "synthetic", "nosuch", true));
	SAY(trace_array_set_clr_event(NULL, "synthetic", "made1", true));
	SAY(synth_event_trace(file, 2, (u64)9, PTR("made")));
	SAY(trace_array_set_clr_event(file->tr, "synthetic", NULL, false));
	trace_put_event_file(file);
	SAY(synth_event_delete("made1"));
	SAY(synth_event_delete("made3"));
	SAY(synth_event_delete("made4"));
	file = NULL;
}

static void make_and_hold(void)
{
	SAY(synth_event_create(event, made_fields, 1, THIS_MODULE));
}

static const struct {
	const char *name;
	void (*run)(void);
	bool uses_file;
} table[] = {
	{ "array", fire_array, true },
	{ "varargs", fire_varargs, true },
	{ "short", fire_wrong_number, true },
	{ "steps", fire_steps, true },
	{ "names", fire_names, true },
	{ "start", fire_start, true },
	{ "stack", fire_stack, true },
	{ "hold", hold, true },
	{ "make", make, false },
	{ "make_and_hold", make_and_hold, false },
};

static int __init synth_calls_init(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(table); i++) {
		if (strcmp(table[i].name, what))
			continue;
		if (table[i].uses_file)
			file = trace_get_event_file(instance, "synthetic", event);
		if (IS_ERR(file))
			return PTR_ERR(file);
		table[i].run();
		return 0;
	}
	return -EINVAL;
}

static void __exit synth_calls_exit(void)
{
	if (file)
		trace_put_event_file(file);
	if (!strcmp(what, "make_and_hold"))
		SAY(synth_event_delete(event));
}

module_init(synth_calls_init);
module_exit(synth_calls_exit);
MODULE_LICENSE("GPL");
