// SPDX-License-Identifier: GPL-2.0-or-later
/* Boot. */
#include <linux/fs.h>
#include <linux/fdtable.h>
#include <linux/host.h>
#include <linux/hrtimer.h>
#include <linux/init.h>
#include <linux/interrupt.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/pid.h>
#include <linux/rcupdate.h>
#include <linux/string.h>
#include <linux/tick.h>
#include <linux/timer.h>
#include <linux/utsname.h>
#include <linux/workqueue.h>
#include <net/sock.h>
#include "../kernel/time/timekeeping.h"
#include "workload.h"

void setup_per_cpu_areas(unsigned long nr_cpus);
void smp_prepare_cpus(void);
void fork_init(void);
extern struct fs_struct init_fs;
static bool workload;

struct task_struct init_task = {
	.__state = TASK_RUNNING,
	.flags = PF_IDLE,
	.stack = STACK_SLOT(0),
	.usage = REFCOUNT_INIT(2),
	.cpus_ptr = cpu_possible_mask,
	.tasks = LIST_HEAD_INIT(init_task.tasks),
	.comm = "swapper/0",
	.real_parent = &init_task,
	.parent = &init_task,
	.group_leader = &init_task,
	.files = &init_files,
	.fs = &init_fs,
};

noinline int do_one_initcall(initcall_t fn)
{
	int count = preempt_count(), ret = fn();

	WARN(preempt_count() != count, "initcall %pS returned with preemption imbalance\n",
	     (void *)fn);
	return ret;
}

static void __init do_initcalls(void)
{
	extern initcall_t __initcall_start[], __initcall_end[];
	initcall_t *fn;

	for (fn = __initcall_start; fn < __initcall_end; fn++)
		if (do_one_initcall(*fn))
			pr_warn("initcall %ps failed\n", (void *)*fn);
}

/* Run pid 1, which stands for user space, and which Python asks to run things. */
static int kernel_init(void *unused)
{
	inet_init();
	do_initcalls();
	set_task_comm(current, "init");
	if (workload)
		run_init_workload();
	return kpfs_host_task(NULL);
}

static noinline void __init rest_init(void)
{
	struct kernel_clone_args args = { .fn = kernel_init, .exit_signal = SIGCHLD, .set_tid = 1 };

	kernel_clone(&args);
	kthreadd_task_pid = kernel_thread(kthreadd, NULL, 0);
	schedule_preempt_disabled();
	cpu_startup_entry();
}

asmlinkage __visible void __init start_kernel(const struct kpfs_boot_params *params)
{
	setup_per_cpu_areas(params->nr_cpus);
	timekeeping_init(params);
	kpfs_host_init(params);
	if (!kpfs_configured(KPFS_CONFIG_PREEMPTION))
		strscpy(init_utsname()->version, UTS_VERSION_NO_PREEMPT,
			sizeof(init_utsname()->version));
	_printk(KERN_NOTICE "Linux version " UTS_RELEASE " " LINUX_COMPILE " %s\n",
		init_utsname()->version);
	mem_init(params->free_start, params->free_end);
	kmem_cache_init();
	sched_init();
	hrtimers_init();
	softirq_init();
	init_timers();
	rcu_init();
	pid_idr_init();
	fork_init();
	vfs_caches_init();
	workqueue_init_early();
	workload = params->workload;
	smp_prepare_cpus();
	tick_setup_sched_timer();
	local_irq_enable();
	rest_init();
}
