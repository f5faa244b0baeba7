// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Executing a program. There is none to run: a task gets the program's name, and its
 * descriptors are closed as they should be.
 */
#include <linux/fdtable.h>
#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>

#define MAX_ARG_STRINGS 4096
struct linux_binprm {
	struct file *file;
	const char *filename;
	int argc, envc;
	char buf[128];
};

noinline void __set_task_comm(struct task_struct *tsk, const char *buf, bool exec)
{
	char comm[TASK_COMM_LEN] = "";

	strscpy(comm, buf, sizeof(comm));
	memcpy(tsk->comm, comm, sizeof(comm));
}

char *__get_task_comm(char *buf, size_t buf_size, struct task_struct *tsk)
{
	strscpy(buf, tsk->comm, buf_size);
	return buf;
}

static noinline struct file *do_open_execat(int fd, struct filename *name)
{
	static const struct open_flags op = {
		.open_flag = O_RDONLY,
		.acc_mode = MAY_EXEC | MAY_OPEN,
		.lookup_flags = LOOKUP_FOLLOW,
	};
	struct file *file = do_filp_open(fd, name, &op);

	if (!IS_ERR(file) && !S_ISREG(file_inode(file)->i_mode)) {
		fput(file);
		return ERR_PTR(-EACCES);
	}
	return file;
}

/* Return the number of strings in an argument vector. */
static noinline int count_strings(const char __user *const __user *argv, int max)
{
	const char __user *p;

	for (int i = 0; argv && i < max; i++) {
		if (copy_from_user(&p, argv + i, sizeof(p)))
			return -EFAULT;
		if (!p)
			return i;
		if (!strnlen_user(p, PATH_MAX))
			return -EFAULT;
		cond_resched();
	}
	return argv ? -E2BIG : 0;
}

static noinline struct linux_binprm *alloc_bprm(int fd, struct filename *filename)
{
	struct linux_binprm *bprm = kzalloc(sizeof(*bprm), GFP_KERNEL);

	if (!bprm)
		return ERR_PTR(-ENOMEM);
	bprm->filename = filename->name;
	return bprm;
}

static noinline void free_bprm(struct linux_binprm *bprm)
{
	if (bprm->file)
		fput(bprm->file);
	kfree(bprm);
}

static noinline int prepare_binprm(struct linux_binprm *bprm)
{
	loff_t pos = 0;
	ssize_t n = kernel_read(bprm->file, bprm->buf, sizeof(bprm->buf), &pos);

	return n < 0 ? n : 0;
}

static noinline int begin_new_exec(struct linux_binprm *bprm)
{
	struct task_struct *me = current;
	int retval = unshare_files();

	if (retval)
		return retval;
	me->flags &= ~PF_FORKNOEXEC;
	do_close_on_exec(me->files);
	__set_task_comm(me, kbasename(bprm->filename), true);
	mm_release(me);
	return 0;
}

static noinline int exec_binprm(struct linux_binprm *bprm)
{
	return begin_new_exec(bprm);
}

static noinline int bprm_execve(struct linux_binprm *bprm, int fd, struct filename *filename)
{
	struct file *file = do_open_execat(fd, filename);
	int retval;

	if (IS_ERR(file))
		return PTR_ERR(file);
	bprm->file = file;
	retval = prepare_binprm(bprm);
	return retval < 0 ? retval : exec_binprm(bprm);
}

static noinline int do_execveat_common(int fd, struct filename *filename,
				       const char __user *const __user *argv,
				       const char __user *const __user *envp, int flags)
{
	struct linux_binprm *bprm;
	int retval;

	if (IS_ERR(filename))
		return PTR_ERR(filename);
	bprm = alloc_bprm(fd, filename);
	if (IS_ERR(bprm)) {
		retval = PTR_ERR(bprm);
		goto out_ret;
	}
	retval = bprm->argc = count_strings(argv, MAX_ARG_STRINGS);
	if (retval >= 0)
		retval = bprm->envc = count_strings(envp, MAX_ARG_STRINGS);
	if (retval >= 0)
		retval = bprm_execve(bprm, fd, filename);
	free_bprm(bprm);
out_ret:
	putname(filename);
	return retval;
}

static inline int do_execve(struct filename *filename, const char __user *const __user *argv,
			    const char __user *const __user *envp)
{
	return do_execveat_common(AT_FDCWD, filename, argv, envp, 0);
}

SYSCALL_DEFINE3(execve, const char __user *, filename, const char __user *const __user *, argv,
		const char __user *const __user *, envp)
{
	return do_execve(getname(filename), argv, envp);
}

SYSCALL_DEFINE5(execveat, int, fd, const char __user *, filename, const char __user *const __user *,
		argv, const char __user *const __user *, envp, int, flags)
{
	return do_execveat_common(fd, getname_flags(filename, flags), argv, envp, flags);
}
