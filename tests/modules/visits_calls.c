// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Defines trace events (visits.h), and hooks functions of its own to their trace points, to one
 * without an event and to two of the kernel. What is written to its file in debugfs, visits, says
 * what to do; what is read there is what has happened. It uses nothing but Linux's interface, so
 * that a real kernel can be asked the same.
 */
#include <linux/debugfs.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/version.h>
#include <trace/events/syscalls.h>
#define CREATE_TRACE_POINTS
#include "visits.h"
#undef CREATE_TRACE_POINTS
#undef TRACE_SYSTEM_VAR
#define CREATE_CUSTOM_TRACE_EVENTS
#include "visits_custom.h"

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 1, 0)
#error "this is for Linux 6.1"
#endif
EXPORT_TRACEPOINT_SYMBOL_GPL(visit_bare);

#define GETPPID ((void *)110) /* its number */
static struct dentry *dir;
static struct task_struct *thread;
static struct tracepoint *sched_switch, *sys_enter;
static int users, refusal;
static atomic_t switches, calls;

static char happened[2048];
static size_t length;

static void say(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	length += vscnprintf(happened + length, sizeof(happened) - length, fmt, args);
	va_end(args);
}

static int visits_thread(void *unused)
{
	while (!kthread_should_stop()) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (!kthread_should_stop())
			schedule_timeout(HZ);
		__set_current_state(TASK_RUNNING);
	}
	return 0;
}

int visits_open(void)
{
	say("open, %d\n", users);
	if (refusal)
		return refusal;
	if (!users++)
		thread = kthread_run(visits_thread, NULL, "visits");
	return IS_ERR(thread) ? PTR_ERR(thread) : 0;
}

void visits_close(void)
{
	say("close, %d\n", users);
	if (!--users)
		kthread_stop(thread);
}

static void on_fn(void *data, int nr)
{
	say("fn %s %d\n", (char *)data, nr);
}
static void on_bare(void *data, int nr, const char *who)
{
	say("bare %s %d %s\n", (char *)data, nr, who);
}
static void on_rel(void *data, const char *who, int nr, unsigned long *mask)
{
	say("rel %s %d %lx, preempt_count %d\n", who, nr, *mask, preempt_count());
}
static void on_switch(void *data, bool preempt, struct task_struct *prev, struct task_struct *next,
		      unsigned int state)
{
	atomic_inc(&switches);
}
static void on_enter(void *data, struct pt_regs *regs, long id)
{
	if (id == (long)data)
		atomic_inc(&calls);
}

static void find(struct tracepoint *tp, void *priv)
{
	trace_custom_event_sys_enter_update(tp);
	if (!strcmp(tp->name, "sched_switch"))
		sched_switch = tp;
	else if (!strcmp(tp->name, "sys_enter"))
		sys_enter = tp;
}

static void note(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	trace_visit_note("somebody", 3, fmt, &args);
	va_end(args);
}

static int act(char what)
{
	unsigned long mask = 0xabc0000002UL;

	switch (what) {
	case 'v':
		note("%d and %s", 42, "more");
		trace_visit_rel("a long name", 3, &mask);
		trace_visit_fn(1);
		trace_visit_class_fn(2);
		trace_visit_bare(3, "x");
		return 0;
	case 'r': return register_trace_visit_fn(on_fn, "first");
	case 'R': return register_trace_prio_visit_fn(on_fn, "urgent", 20);
	case 'u': return unregister_trace_visit_fn(on_fn, "first");
	case 'U': return unregister_trace_visit_fn(on_fn, "urgent");
	case 'b': return register_trace_visit_bare(on_bare, "bare");
	case 'B': return unregister_trace_visit_bare(on_bare, "bare");
	case 'l': return register_trace_visit_rel(on_rel, NULL);
	case 'L': return unregister_trace_visit_rel(on_rel, NULL);
	case 'c': return register_trace_visit_class_fn(on_fn, "class");
	case 'C': return unregister_trace_visit_class_fn(on_fn, "class");
	case 's': return tracepoint_probe_register(sched_switch, on_switch, NULL);
	case 'S': return tracepoint_probe_unregister(sched_switch, on_switch, NULL);
	case 'e': return tracepoint_probe_register(sys_enter, on_enter, GETPPID);
	case 'E': return tracepoint_probe_unregister(sys_enter, on_enter, GETPPID);
	case 'f': refusal = -EUCLEAN; return 0;
	case 'F': refusal = 0; return 0;
	case 'n':
		say("switches %d, calls %d\n", atomic_read(&switches) > 0,
		    atomic_read(&calls) >= 5);
		return 0;
	case 'o': return trace_visit_fn_enabled() ? 0 : -ENOENT;
	default:  return -EINVAL;
	}
}

static ssize_t visits_write(struct file *file, const char __user *buf, size_t len, loff_t *pos)
{
	char what;
	int ret;

	if (get_user(what, buf))
		return -EFAULT;
	ret = act(what);
	return ret < 0 ? ret : len;
}
static ssize_t visits_read(struct file *file, char __user *buf, size_t len, loff_t *pos)
{
	ssize_t ret = simple_read_from_buffer(buf, len, pos, happened, length);

	if (!ret)
		length = 0;
	return ret;
}
static const struct file_operations visits_fops = { .owner = THIS_MODULE,
						    .read = visits_read,
						    .write = visits_write };

static int __init visits_init(void)
{
	for_each_kernel_tracepoint(find, NULL);
	if (!sched_switch || !sys_enter)
		return -ENOENT;
	dir = debugfs_create_file("visits", 0600, NULL, NULL, &visits_fops);
	return 0;
}

static void __exit visits_exit(void)
{
	debugfs_remove(dir);
	tracepoint_synchronize_unregister();
}
module_init(visits_init);
module_exit(visits_exit);
MODULE_LICENSE("GPL");
