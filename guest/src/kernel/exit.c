// SPDX-License-Identifier: GPL-2.0-or-later
/* The end of a task, and waiting for it. */
#include <kpfs/hypercall.h>
#include <linux/fdtable.h>
#include <linux/host.h>
#include <linux/kernel.h>
#include <linux/pid.h>
#include <linux/rcupdate.h>
#include <linux/signal.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>
#include <linux/wait.h>
#include <trace/events/sched.h>

static noinline void __unhash_process(struct task_struct *p)
{
	detach_pid(p);
	list_del_init(&p->tasks);
	list_del_init(&p->sibling);
	dec_nr_threads();
}

static void __exit_signal(struct task_struct *tsk)
{
	__unhash_process(tsk);
	tsk->pending = 0;
}

noinline void release_task(struct task_struct *p)
{
	write_lock_irq(&tasklist_lock);
	__exit_signal(p);
	write_unlock_irq(&tasklist_lock);
	trace_sched_process_free(p);
	put_task_struct(p);
}

static struct task_struct *child_reaper(void)
{
	return find_task_by_vpid(1) ?: &init_task;
}

/* Give the children to init. */
static noinline void forget_original_parent(struct task_struct *father)
{
	struct task_struct *p, *n, *reaper = child_reaper();

	list_for_each_entry_safe(p, n, &father->children, sibling) {
		p->real_parent = p->parent = reaper;
		list_move_tail(&p->sibling, &reaper->children);
	}
}

static bool do_notify_parent(struct task_struct *tsk)
{
	struct task_struct *parent = tsk->parent;

	__wake_up((wait_queue_head_t *)&parent->wait_chldexit, TASK_INTERRUPTIBLE, 1, tsk);
	/* Nobody waits for the children of init, of kernel threads and of the host's tasks. */
	return parent->pid <= 1 || parent->flags & (PF_KTHREAD | PF_HOST);
}

/* Return a zombie among the children of a task that ends, as no task will wait for it, or NULL. */
static noinline struct task_struct *first_dead_child(struct task_struct *tsk)
{
	struct task_struct *p;

	list_for_each_entry(p, &tsk->children, sibling)
		if (p->exit_state == EXIT_ZOMBIE)
			return p;
	return NULL;
}

static void exit_notify(struct task_struct *tsk)
{
	struct task_struct *p;
	bool autoreap;

	while ((p = first_dead_child(tsk)))
		release_task(p);
	write_lock_irq(&tasklist_lock);
	forget_original_parent(tsk);
	tsk->exit_state = EXIT_ZOMBIE;
	autoreap = do_notify_parent(tsk);
	if (autoreap)
		tsk->exit_state = EXIT_DEAD;
	write_unlock_irq(&tasklist_lock);
	if (autoreap)
		release_task(tsk);
}

static void exit_signals(struct task_struct *tsk)
{
	tsk->flags |= PF_EXITING;
}

void __noreturn do_exit(long code)
{
	struct task_struct *tsk = current;
	pid_t pid = tsk->pid;

	WARN_ON(in_interrupt());
	exit_signals(tsk);
	tsk->exit_code = code;
	mm_release(tsk);
	exit_mm(tsk);
	trace_sched_process_exit(tsk);
	exit_files(tsk);
	exit_fs(tsk);
	exit_notify(tsk);
	hypercall(HC_EXIT, pid); /* its pid may be used again */
	do_task_dead();
}

noinline void __noreturn do_group_exit(int code)
{
	do_exit(code);
}

/* Kill the current task, whose fault it was; the kernel goes on. */
void __noreturn make_task_dead(int signr)
{
	if (unlikely(in_interrupt()))
		panic("Aiee, killing interrupt handler!");
	if (unlikely(current->pid == 0))
		panic("Attempted to kill the idle task!");
	if (unlikely(irqs_disabled())) {
		pr_info("note: %s[%d] exited with irqs disabled\n", current->comm, current->pid);
		local_irq_enable();
	}
	if (unlikely(in_atomic())) {
		pr_info("note: %s[%d] exited with preempt_count %d\n", current->comm, current->pid,
			preempt_count());
		set_preempt_count_zero();
	}
	exit_rcu();
	if (unlikely(current->flags & PF_EXITING)) {
		/* it stays as it is: what it could not give up now it will not the next time */
		pr_alert("Fixing recursive fault but reboot is needed!\n");
		hypercall(HC_EXIT, current->pid);
		get_task_struct(current);
		do_task_dead();
	}
	if (unlikely(current->pid == 1))
		kpfs_host_restart();
	do_exit(signr);
}

SYSCALL_DEFINE1(exit, int, error_code)
{
	do_exit((error_code & 0xff) << 8);
}

SYSCALL_DEFINE1(exit_group, int, error_code)
{
	do_group_exit((error_code & 0xff) << 8);
}

struct wait_opts {
	pid_t pid;
	int options;
	int status;
};
#define WNOHANG 1

static int eligible_child(struct wait_opts *wo, struct task_struct *p)
{
	return wo->pid == -1 || wo->pid == p->pid;
}

static noinline int wait_task_zombie(struct wait_opts *wo, struct task_struct *p)
{
	pid_t pid = p->pid;

	wo->status = p->exit_code;
	p->exit_state = EXIT_DEAD;
	release_task(p);
	return pid;
}

static noinline int wait_consider_task(struct wait_opts *wo, struct task_struct *p)
{
	if (!eligible_child(wo, p))
		return 0;
	return p->exit_state != EXIT_ZOMBIE ? -EAGAIN : wait_task_zombie(wo, p);
}

static int do_wait_thread(struct wait_opts *wo, struct task_struct *tsk)
{
	struct task_struct *p, *n;
	int ret, found = -ECHILD;

	list_for_each_entry_safe(p, n, &tsk->children, sibling) {
		ret = wait_consider_task(wo, p);
		if (ret > 0)
			return ret;
		if (ret == -EAGAIN)
			found = -EAGAIN;
	}
	return found;
}

static long do_wait(struct wait_opts *wo)
{
	wait_queue_head_t *q = (wait_queue_head_t *)&current->wait_chldexit;
	DEFINE_WAIT(wait);
	long ret;

	add_wait_queue(q, &wait);
	for (;;) {
		set_current_state(TASK_INTERRUPTIBLE);
		ret = do_wait_thread(wo, current);
		if (ret != -EAGAIN)
			break;
		ret = 0;
		if (wo->options & WNOHANG)
			break;
		ret = -ERESTARTSYS;
		if (signal_pending(current))
			break;
		schedule();
		if (list_empty(&wait.entry))
			add_wait_queue(q, &wait);
	}
	finish_wait(q, &wait);
	return ret;
}

long kernel_wait4(pid_t upid, int __user *stat_addr, int options, void *ru)
{
	struct wait_opts wo = { .pid = upid, .options = options };
	long ret = do_wait(&wo);

	if (ret > 0 && stat_addr && put_user(wo.status, stat_addr))
		ret = -EFAULT;
	return ret;
}

struct rusage;

SYSCALL_DEFINE4(wait4, pid_t, upid, int __user *, stat_addr, int, options, struct rusage __user *,
		ru)
{
	return kernel_wait4(upid, stat_addr, options, NULL);
}
