// SPDX-License-Identifier: GPL-2.0-or-later
/* The attributes of files. */
#include <linux/fdtable.h>
#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>

/* struct stat of x86-64. */
struct stat {
	u64 st_dev, st_ino, st_nlink;
	u32 st_mode, st_uid, st_gid, __pad0;
	u64 st_rdev;
	s64 st_size, st_blksize, st_blocks;
	s64 st_atime, st_atime_nsec, st_mtime, st_mtime_nsec, st_ctime, st_ctime_nsec;
	s64 __unused_[3];
};

void generic_fillattr(struct inode *inode, struct kstat *stat)
{
	stat->dev = inode->i_sb->s_dev;
	stat->ino = inode->i_ino;
	stat->mode = inode->i_mode;
	stat->nlink = inode->i_nlink;
	stat->uid = inode->i_uid;
	stat->gid = inode->i_gid;
	stat->rdev = inode->i_rdev;
	stat->size = i_size_read(inode);
	stat->atime = inode->i_atime;
	stat->mtime = inode->i_mtime;
	stat->ctime = inode->i_ctime;
	stat->blksize = inode->i_sb->s_blocksize;
	stat->blocks = DIV_ROUND_UP(stat->size, 512);
}

int vfs_getattr_nosec(const struct path *path, struct kstat *stat)
{
	struct inode *inode = d_inode(path->dentry);

	memset(stat, 0, sizeof(*stat));
	if (inode->i_op && inode->i_op->getattr)
		return inode->i_op->getattr(path, stat);
	generic_fillattr(inode, stat);
	return 0;
}

noinline int vfs_getattr(const struct path *path, struct kstat *stat)
{
	return vfs_getattr_nosec(path, stat);
}

noinline int vfs_fstat(int fd, struct kstat *stat)
{
	struct file *f __free(fput) = fget(fd);

	return f ? vfs_getattr(&f->f_path, stat) : -EBADF;
}

static noinline int vfs_statx(int dfd, struct filename *filename, int flags, struct kstat *stat)
{
	unsigned int lookup_flags = flags & AT_SYMLINK_NOFOLLOW ? 0 : LOOKUP_FOLLOW;
	struct path path;
	int error = filename_lookup(dfd, filename, lookup_flags, &path);

	if (error)
		return error;
	guard(path)(&path);
	return vfs_getattr(&path, stat);
}

noinline int vfs_fstatat(int dfd, const char __user *filename, struct kstat *stat, int flags)
{
	struct filename *name = getname_flags(filename, flags);
	int ret = vfs_statx(dfd, name, flags, stat);

	putname(name);
	return ret;
}

static noinline int cp_new_stat(struct kstat *stat, struct stat __user *statbuf)
{
	struct stat tmp = {
		.st_dev = stat->dev,
		.st_ino = stat->ino,
		.st_nlink = stat->nlink,
		.st_mode = stat->mode,
		.st_uid = stat->uid.val,
		.st_gid = stat->gid.val,
		.st_rdev = stat->rdev,
		.st_size = stat->size,
		.st_blksize = stat->blksize,
		.st_blocks = stat->blocks,
		.st_atime = stat->atime.tv_sec,
		.st_atime_nsec = stat->atime.tv_nsec,
		.st_mtime = stat->mtime.tv_sec,
		.st_mtime_nsec = stat->mtime.tv_nsec,
		.st_ctime = stat->ctime.tv_sec,
		.st_ctime_nsec = stat->ctime.tv_nsec,
	};

	return copy_to_user(statbuf, &tmp, sizeof(tmp)) ? -EFAULT : 0;
}

SYSCALL_DEFINE2(newstat, const char __user *, filename, struct stat __user *, statbuf)
{
	struct kstat stat;

	return vfs_fstatat(AT_FDCWD, filename, &stat, 0) ?: cp_new_stat(&stat, statbuf);
}

SYSCALL_DEFINE2(newlstat, const char __user *, filename, struct stat __user *, statbuf)
{
	struct kstat stat;

	return vfs_fstatat(AT_FDCWD, filename, &stat, AT_SYMLINK_NOFOLLOW) ?:
		       cp_new_stat(&stat, statbuf);
}

SYSCALL_DEFINE4(newfstatat, int, dfd, const char __user *, filename, struct stat __user *, statbuf,
		int, flag)
{
	struct kstat stat;

	return vfs_fstatat(dfd, filename, &stat, flag) ?: cp_new_stat(&stat, statbuf);
}

SYSCALL_DEFINE2(newfstat, unsigned int, fd, struct stat __user *, statbuf)
{
	struct kstat stat;

	return vfs_fstat(fd, &stat) ?: cp_new_stat(&stat, statbuf);
}

static noinline int do_readlinkat(int dfd, const char __user *pathname, char __user *buf,
				  int bufsiz)
{
	struct path path;
	const char *link;
	int error, len;

	if (bufsiz <= 0)
		return -EINVAL;
	error = user_path_at_empty(dfd, pathname, 0, &path);
	if (error)
		return error;
	error = -EINVAL;
	if (S_ISLNK(d_inode(path.dentry)->i_mode)) {
		link = d_inode(path.dentry)->i_link;
		if (!link)
			link = d_inode(path.dentry)
				       ->i_op->get_link(path.dentry, d_inode(path.dentry));
		len = min_t(int, strlen(link), bufsiz);
		error = copy_to_user(buf, link, len) ? -EFAULT : len;
	}
	path_put(&path);
	return error;
}

SYSCALL_DEFINE3(readlink, const char __user *, path, char __user *, buf, int, bufsiz)
{
	return do_readlinkat(AT_FDCWD, path, buf, bufsiz);
}

SYSCALL_DEFINE4(readlinkat, int, dfd, const char __user *, path, char __user *, buf, int, bufsiz)
{
	return do_readlinkat(dfd, path, buf, bufsiz);
}

struct statx {
	u32 stx_mask, stx_blksize;
	u64 stx_attributes;
	u32 stx_nlink, stx_uid, stx_gid;
	u16 stx_mode, pad;
	u64 stx_ino, stx_size, stx_blocks, rest[25];
};

SYSCALL_DEFINE5(statx, int, dfd, const char __user *, filename, unsigned int, flags, unsigned int,
		mask, struct statx __user *, buffer)
{
	struct kstat stat;
	struct statx tmp = { .stx_mask = 0x7ff };
	int error = vfs_fstatat(dfd, filename, &stat, flags);

	if (error)
		return error;
	tmp.stx_blksize = stat.blksize;
	tmp.stx_nlink = stat.nlink;
	tmp.stx_uid = stat.uid.val;
	tmp.stx_gid = stat.gid.val;
	tmp.stx_mode = stat.mode;
	tmp.stx_ino = stat.ino;
	tmp.stx_size = stat.size;
	tmp.stx_blocks = stat.blocks;
	return copy_to_user(buffer, &tmp, sizeof(tmp)) ? -EFAULT : 0;
}
