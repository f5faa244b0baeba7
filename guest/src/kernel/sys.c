// SPDX-License-Identifier: GPL-2.0-or-later
/* System calls about the caller itself, and the table of them all. */
#include <linux/pid.h>
#include <linux/rcupdate.h>
#include <linux/security.h>
#include <linux/string.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>
#include <linux/utsname.h>

long __x64_sys_ni_syscall(const struct pt_regs *regs)
{
	return -ENOSYS;
}

SYSCALL_DEFINE0(getppid)
{
	int pid;

	rcu_read_lock();
	pid = READ_ONCE(current->real_parent)->tgid;
	rcu_read_unlock();
	return pid;
}

SYSCALL_DEFINE0(getpid)
{
	return task_tgid_nr(current);
}

SYSCALL_DEFINE0(gettid)
{
	return task_pid_nr(current);
}

SYSCALL_DEFINE0(getuid)
{
	return current->cred->uid.val;
}

SYSCALL_DEFINE0(geteuid)
{
	return current->cred->euid.val;
}

SYSCALL_DEFINE0(getgid)
{
	return current->cred->gid.val;
}

SYSCALL_DEFINE0(getegid)
{
	return current->cred->egid.val;
}

long __sys_setuid(uid_t uid)
{
	struct cred *cred = current->cred;

	if (!capable(CAP_SETUID) && uid != cred->uid.val && uid != cred->suid.val)
		return -EPERM;
	if (capable(CAP_SETUID))
		cred->uid.val = cred->suid.val = uid;
	cred->euid.val = cred->fsuid.val = uid;
	return 0;
}

SYSCALL_DEFINE1(setuid, uid_t, uid)
{
	return __sys_setuid(uid);
}

noinline long __sys_setgid(gid_t gid)
{
	struct cred *cred = current->cred;

	if (!capable(CAP_SETUID) && gid != cred->gid.val)
		return -EPERM;
	cred->gid.val = cred->egid.val = cred->sgid.val = cred->fsgid.val = gid;
	return 0;
}

SYSCALL_DEFINE1(setgid, gid_t, gid)
{
	return __sys_setgid(gid);
}

SYSCALL_DEFINE1(newuname, struct new_utsname __user *, name)
{
	return copy_to_user(name, utsname(), sizeof(*name)) ? -EFAULT : 0;
}

SYSCALL_DEFINE2(sethostname, char __user *, name, int, len)
{
	char tmp[65];

	if (len < 0 || len > 64)
		return -EINVAL;
	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	if (copy_from_user(tmp, name, len))
		return -EFAULT;
	tmp[len] = 0;
	strcpy(utsname()->nodename, tmp);
	return 0;
}

#define PR_SET_NAME 15
#define PR_GET_NAME 16
SYSCALL_DEFINE5(prctl, int, option, unsigned long, arg2, unsigned long, arg3, unsigned long, arg4,
		unsigned long, arg5)
{
	char comm[TASK_COMM_LEN];

	switch (option) {
	case PR_SET_NAME:
		comm[TASK_COMM_LEN - 1] = 0;
		if (strncpy_from_user(comm, (char __user *)arg2, TASK_COMM_LEN - 1) < 0)
			return -EFAULT;
		set_task_comm(current, comm);
		return 0;
	case PR_GET_NAME:
		get_task_comm(comm, current);
		return copy_to_user((char __user *)arg2, comm, sizeof(comm)) ? -EFAULT : 0;
	default: return -EINVAL;
	}
}

/* Move the break, within the task's slot of user memory. */
SYSCALL_DEFINE1(brk, unsigned long, brk)
{
	unsigned long base = current->user_base;

	if (brk >= base + KPFS_USER_BUFFER && brk <= base + KPFS_USER_SIZE)
		current->user_brk = brk;
	return current->user_brk;
}

SYSCALL_DEFINE1(times, unsigned long __user *, tbuf)
{
	unsigned long t[4] = { current->utime / 10000000, current->stime / 10000000 };

	return tbuf && copy_to_user(tbuf, t, sizeof(t)) ? -EFAULT : jiffies;
}
