// SPDX-License-Identifier: GPL-2.0-or-later
/* Signals as far as this kernel has them: the default action, to end the task. */
#include <linux/pid.h>
#include <linux/security.h>
#include <linux/signal.h>
#include <linux/syscalls.h>

static noinline bool sig_ignored(struct task_struct *t, int sig)
{
	return sig == SIGCHLD || t->pid <= 1 || (t->flags & PF_KTHREAD);
}

static noinline void complete_signal(int sig, struct task_struct *t)
{
	wake_up_state(t, sig == SIGKILL ? TASK_NORMAL : TASK_INTERRUPTIBLE);
}

noinline int send_signal_locked(int sig, struct task_struct *t)
{
	if (!sig || sig_ignored(t, sig))
		return 0;
	set_bit(sig, &t->pending);
	complete_signal(sig, t);
	return 0;
}

int send_sig(int sig, struct task_struct *p, int priv)
{
	return send_signal_locked(sig, p);
}

static noinline int check_kill_permission(int sig, struct task_struct *t)
{
	if (sig < 0 || sig >= 64)
		return -EINVAL;
	return !capable(CAP_KILL) && current->cred->euid.val != t->cred->uid.val ? -EPERM : 0;
}

noinline int kill_pid_info(int sig, struct pid *pid)
{
	struct task_struct *p = pid_task(pid);

	return p ? check_kill_permission(sig, p) ?: send_signal_locked(sig, p) : -ESRCH;
}

static noinline int kill_something_info(int sig, pid_t pid)
{
	return pid > 0 ? kill_pid_info(sig, find_vpid(pid)) : -ESRCH;
}

SYSCALL_DEFINE2(kill, pid_t, pid, int, sig)
{
	return kill_something_info(sig, pid);
}

static noinline int dequeue_signal(struct task_struct *tsk)
{
	for (int sig = 1; sig < 64; sig++)
		if (test_and_clear_bit(sig, &tsk->pending))
			return sig;
	return 0;
}

static noinline bool get_signal(int *sig)
{
	*sig = dequeue_signal(current);
	return *sig != 0;
}

void arch_do_signal_or_restart(struct pt_regs *regs)
{
	int sig;

	clear_bit(0, &current->pending); /* kpfs_interrupt() */
	if (get_signal(&sig))
		do_group_exit(sig);
}
