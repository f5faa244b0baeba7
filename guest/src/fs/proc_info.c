// SPDX-License-Identifier: GPL-2.0-or-later
/* The files of /proc. */
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/proc_fs.h>
#include <linux/utsname.h>

unsigned int nr_running(void);
unsigned long long nr_context_switches(void);
int nr_processes(void);
int filesystems_show(struct seq_file *m, void *v);
extern const struct seq_operations mounts_op;
extern unsigned long total_forks;

static int version_proc_show(struct seq_file *m, void *v)
{
	seq_printf(m, linux_proc_banner, utsname()->sysname, utsname()->release,
		   utsname()->version);
	return 0;
}

static int uptime_proc_show(struct seq_file *m, void *v)
{
	u64 ns = ktime_get_ns();

	seq_printf(m, "%llu.%02llu 0.00\n", ns / NSEC_PER_SEC, ns % NSEC_PER_SEC / 10000000);
	return 0;
}

static int loadavg_proc_show(struct seq_file *m, void *v)
{
	seq_printf(m, "0.00 0.00 0.00 %u/%d %d\n", nr_running(), nr_processes(), current->pid);
	return 0;
}

char *saved_command_line = "kpfs";

static int cmdline_proc_show(struct seq_file *m, void *v)
{
	seq_printf(m, "%s\n", saved_command_line);
	return 0;
}

static int show_stat(struct seq_file *p, void *v)
{
	seq_printf(p, "ctxt %llu\nbtime %lld\nprocesses %lu\nprocs_running %u\n",
		   nr_context_switches(), ktime_get_real_seconds() - ktime_get_seconds(),
		   total_forks, nr_running());
	return 0;
}

static void show_val_kb(struct seq_file *m, const char *s, unsigned long num)
{
	seq_printf(m, "%s%8lu kB\n", s, num << (PAGE_SHIFT - 10));
}

static int m_show(struct seq_file *m, void *v)
{
	show_val_kb(m, "MemTotal:       ", max_pfn - min_low_pfn);
	show_val_kb(m, "MemFree:        ", nr_free_pages());
	return 0;
}

/* One line for each task. */
static noinline void *t_start(struct seq_file *m, loff_t *pos)
{
	return seq_list_start(&init_task.tasks, *pos);
}

static void *t_next(struct seq_file *m, void *v, loff_t *pos)
{
	return seq_list_next(v, &init_task.tasks, pos);
}

static void t_stop(struct seq_file *m, void *v) {}

static noinline char task_state_char(struct task_struct *p)
{
	switch (p->exit_state ? p->exit_state : (int)p->__state) {
	case TASK_RUNNING:         return 'R';
	case TASK_INTERRUPTIBLE:   return 'S';
	case TASK_UNINTERRUPTIBLE: return 'D';
	case EXIT_ZOMBIE:          return 'Z';
	case EXIT_DEAD:
	case TASK_DEAD:            return 'X';
	case TASK_NEW:             return 'N';
	default:                   return '?';
	}
}

static int t_show(struct seq_file *m, void *v)
{
	struct task_struct *p = list_entry(v, struct task_struct, tasks);

	seq_printf(m, "%d %s %c %d %u\n", p->pid, p->comm, task_state_char(p), p->real_parent->pid,
		   p->cpu);
	return 0;
}

static const struct seq_operations tasks_op = {
	.start = t_start,
	.next = t_next,
	.stop = t_stop,
	.show = t_show,
};

static int __init proc_misc_init(void)
{
	proc_create_single("version", 0, version_proc_show);
	proc_create_single("uptime", 0, uptime_proc_show);
	proc_create_single("loadavg", 0, loadavg_proc_show);
	proc_create_single("cmdline", 0, cmdline_proc_show);
	proc_create_single("stat", 0, show_stat);
	proc_create_single("meminfo", 0, m_show);
	proc_create_single("filesystems", 0, filesystems_show);
	proc_create_seq("mounts", 0, &mounts_op);
	proc_create_seq("tasks", 0, &tasks_op);
	return 0;
}
fs_initcall(proc_misc_init);
