// SPDX-License-Identifier: GPL-2.0-or-later
/* A task's root and working directory. */
#include <linux/fdtable.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>

struct fs_struct init_fs = { .users = 1, .umask = 0022 };

noinline void set_fs_pwd(struct fs_struct *fs, const struct path *path)
{
	struct path old_pwd = fs->pwd;

	path_get(path);
	fs->pwd = *path;
	path_put(&old_pwd);
}

noinline void free_fs_struct(struct fs_struct *fs)
{
	path_put(&fs->root);
	path_put(&fs->pwd);
	kfree(fs);
}

void exit_fs(struct task_struct *tsk)
{
	struct fs_struct *fs = tsk->fs;

	tsk->fs = NULL;
	if (fs && fs != &init_fs && --fs->users == 0)
		free_fs_struct(fs);
}

struct fs_struct *copy_fs_struct(struct fs_struct *old)
{
	struct fs_struct *fs = kzalloc(sizeof(*fs), GFP_KERNEL);

	if (!fs)
		return NULL;
	fs->users = 1;
	fs->umask = old->umask;
	fs->root = old->root;
	fs->pwd = old->pwd;
	path_get(&fs->root);
	path_get(&fs->pwd);
	return fs;
}

SYSCALL_DEFINE1(umask, int, mask)
{
	return xchg(&current->fs->umask, mask & 0777);
}

SYSCALL_DEFINE1(chdir, const char __user *, filename)
{
	struct path path;
	int error = user_path_at_empty(AT_FDCWD, filename, LOOKUP_FOLLOW | LOOKUP_DIRECTORY, &path);

	if (error)
		return error;
	guard(path)(&path);
	error = inode_permission(d_inode(path.dentry), MAY_EXEC);
	if (!error)
		set_fs_pwd(current->fs, &path);
	return error;
}

SYSCALL_DEFINE1(fchdir, unsigned int, fd)
{
	struct file *f __free(fput) = fget(fd);
	int error;

	if (!f)
		return -EBADF;
	if (!S_ISDIR(file_inode(f)->i_mode))
		return -ENOTDIR;
	error = inode_permission(file_inode(f), MAY_EXEC);
	if (!error)
		set_fs_pwd(current->fs, &f->f_path);
	return error;
}

SYSCALL_DEFINE2(getcwd, char __user *, buf, unsigned long, size)
{
	char *page __free_page = (char *)__get_free_page(GFP_KERNEL), *p;
	unsigned long len;

	if (!page)
		return -ENOMEM;
	p = d_path(&current->fs->pwd, page, PATH_MAX);
	if (IS_ERR(p))
		return PTR_ERR(p);
	len = page + PATH_MAX - p;
	return len > size ? -ERANGE : copy_to_user(buf, p, len) ? -EFAULT : (long)len;
}
