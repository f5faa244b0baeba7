// SPDX-License-Identifier: GPL-2.0-or-later
/* The times at which a file was read and changed last, set by hand. */
#include <linux/fdtable.h>
#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>

#define UTIME_NOW 0x3fffffff
#define UTIME_OMIT 0x3ffffffe

static bool nsec_valid(long nsec)
{
	return nsec == UTIME_OMIT || nsec == UTIME_NOW || (nsec >= 0 && nsec < NSEC_PER_SEC);
}

/* Return true if a time is to be set, and to what, at *time. */
static bool wanted_time(struct timespec64 *time, const struct timespec64 *from, struct inode *inode)
{
	*time = !from || from->tv_nsec == UTIME_NOW ? current_time(inode) : *from;
	return !from || from->tv_nsec != UTIME_OMIT;
}

noinline int vfs_utimes(const struct path *path, const struct timespec64 *times)
{
	struct inode *inode = d_inode(path->dentry);
	struct iattr newattrs = {};

	if (times && (!nsec_valid(times[0].tv_nsec) || !nsec_valid(times[1].tv_nsec)))
		return -EINVAL;
	if (wanted_time(&newattrs.ia_atime, times, inode))
		newattrs.ia_valid |= ATTR_ATIME;
	if (wanted_time(&newattrs.ia_mtime, times ? times + 1 : NULL, inode))
		newattrs.ia_valid |= ATTR_MTIME;
	guard(inode)(inode);
	return notify_change(path->dentry, &newattrs);
}

static noinline int do_utimes_path(int dfd, const char __user *filename,
				   const struct timespec64 *times, int flags)
{
	struct path path;
	int error;

	if (flags & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	error = user_path_at_empty(dfd, filename, at_lookup_flags(flags), &path);
	if (error)
		return error;
	guard(path)(&path);
	return vfs_utimes(&path, times);
}

static noinline int do_utimes_fd(int fd, const struct timespec64 *times, int flags)
{
	if (flags)
		return -EINVAL;

	struct file *f __free(fput) = fget(fd);

	return f ? vfs_utimes(&f->f_path, times) : -EBADF;
}

noinline long do_utimes(int dfd, const char __user *filename, const struct timespec64 *times,
			int flags)
{
	if (!filename && dfd != AT_FDCWD)
		return do_utimes_fd(dfd, times, flags);
	return do_utimes_path(dfd, filename, times, flags);
}

SYSCALL_DEFINE4(utimensat, int, dfd, const char __user *, filename, const void __user *, utimes,
		int, flags)
{
	struct timespec64 tstimes[2];

	if (!utimes)
		return do_utimes(dfd, filename, NULL, flags);
	if (copy_from_user(tstimes, utimes, sizeof(tstimes)))
		return -EFAULT;
	if (tstimes[0].tv_nsec == UTIME_OMIT && tstimes[1].tv_nsec == UTIME_OMIT)
		return 0;
	return do_utimes(dfd, filename, tstimes, flags);
}
