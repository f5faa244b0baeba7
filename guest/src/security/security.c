// SPDX-License-Identifier: GPL-2.0-or-later
/* The hooks of security modules: here they follow the classic rules only. */
#include <linux/security.h>

static unsigned long denials;

static noinline int deny(int err)
{
	denials++;
	return err;
}

int security_file_permission(struct file *file, int mask)
{
	return (mask & MAY_WRITE) && !(file->f_mode & FMODE_WRITE) ? deny(-EBADF) : 0;
}

int security_file_open(struct file *file)
{
	return file->f_op ? 0 : deny(-ENODEV);
}

int security_task_alloc(struct task_struct *task, unsigned long clone_flags)
{
	return 0;
}

noinline int cap_capable(const struct cred *cred, int cap)
{
	return cred->euid.val ? -EPERM : 0;
}

bool capable(int cap)
{
	return cap_capable(current->cred, cap) == 0;
}
