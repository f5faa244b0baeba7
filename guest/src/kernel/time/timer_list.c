// SPDX-License-Identifier: GPL-2.0-or-later
/* /proc/timer_list: when each CPU wants to be woken. */
#include <linux/init.h>
#include <linux/percpu.h>
#include <linux/proc_fs.h>

static noinline void *t_start(struct seq_file *m, loff_t *pos)
{
	return *pos < nr_cpu_ids ? (void *)(*pos + 1) : NULL;
}

static void *t_next(struct seq_file *m, void *v, loff_t *pos)
{
	++*pos;
	return t_start(m, pos);
}

static void timer_list_stop(struct seq_file *m, void *v) {}

static noinline void print_cpu(struct seq_file *m, int cpu, u64 now)
{
	unsigned long next = per_cpu(pcpu_hot, cpu).next_deadline;

	seq_printf(m, "cpu: %d\n", cpu);
	if (next == ~0UL)
		seq_puts(m, " no event\n");
	else
		seq_printf(m, " next event at %lu nsecs [in %ld nsecs]\n", next,
			   (long)(next - now));
}

static int timer_list_show(struct seq_file *m, void *v)
{
	u64 now = ktime_get_ns();

	if ((long)v == 1)
		seq_printf(m, "now at %llu nsecs\n", now);
	print_cpu(m, (long)v - 1, now);
	return 0;
}

static const struct seq_operations timer_list_sops = {
	.start = t_start,
	.next = t_next,
	.stop = timer_list_stop,
	.show = timer_list_show,
};

static int __init init_timer_list_procfs(void)
{
	return proc_create_seq("timer_list", 0400, &timer_list_sops) ? 0 : -ENOMEM;
}
fs_initcall(init_timer_list_procfs);
