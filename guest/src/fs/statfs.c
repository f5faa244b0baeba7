// SPDX-License-Identifier: GPL-2.0-or-later
/* The attributes of file systems. */
#include <linux/fdtable.h>
#include <linux/fs.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>

/* The layout of x86-64. */
struct kstatfs {
	s64 f_type, f_bsize, f_blocks, f_bfree, f_bavail, f_files, f_ffree;
	s32 f_fsid[2];
	s64 f_namelen, f_frsize, f_flags, f_spare[4];
};

static noinline int statfs_by_dentry(struct dentry *dentry, struct kstatfs *buf)
{
	const struct super_block *sb = dentry->d_sb;

	*buf = (struct kstatfs){
		.f_type = sb->s_magic,
		.f_bsize = sb->s_blocksize,
		.f_frsize = sb->s_blocksize,
		.f_namelen = NAME_MAX,
	};
	return 0;
}

noinline int vfs_statfs(const struct path *path, struct kstatfs *buf)
{
	return statfs_by_dentry(path->dentry, buf);
}

noinline int user_statfs(const char __user *pathname, struct kstatfs *st)
{
	struct path path;
	int error = user_path_at_empty(AT_FDCWD, pathname, LOOKUP_FOLLOW, &path);

	if (error)
		return error;
	guard(path)(&path);
	return vfs_statfs(&path, st);
}

noinline int fd_statfs(int fd, struct kstatfs *st)
{
	struct file *f __free(fput) = fget(fd);

	return f ? vfs_statfs(&f->f_path, st) : -EBADF;
}

static noinline int do_statfs_native(const struct kstatfs *st, void __user *p)
{
	return copy_to_user(p, st, sizeof(*st)) ? -EFAULT : 0;
}

SYSCALL_DEFINE2(statfs, const char __user *, pathname, void __user *, buf)
{
	struct kstatfs st;

	return user_statfs(pathname, &st) ?: do_statfs_native(&st, buf);
}

SYSCALL_DEFINE2(fstatfs, unsigned int, fd, void __user *, buf)
{
	struct kstatfs st;

	return fd_statfs(fd, &st) ?: do_statfs_native(&st, buf);
}
