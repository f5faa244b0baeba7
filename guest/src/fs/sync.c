// SPDX-License-Identifier: GPL-2.0-or-later
/* Writing back, of which a file system in memory needs none. */
/* Whole prologues: room for an optimised probe behind the entry nop. */
#pragma GCC optimize("no-shrink-wrap")
#include <linux/fdtable.h>
#include <linux/fs.h>
#include <linux/syscalls.h>

noinline int vfs_fsync_range(struct file *file, loff_t start, loff_t end, int datasync)
{
	if (!file->f_op->fsync || start > end || start < 0)
		return -EINVAL;
	return not_tail(file->f_op->fsync(file, start, end, datasync));
}

noinline int vfs_fsync(struct file *file, int datasync)
{
	return vfs_fsync_range(file, 0, (loff_t)(~0ULL >> 1), datasync);
}

static noinline int do_fsync(unsigned int fd, int datasync)
{
	struct file *f __free(fput) = fget(fd);

	return f ? vfs_fsync(f, datasync) : -EBADF;
}

SYSCALL_DEFINE1(fsync, unsigned int, fd)
{
	return do_fsync(fd, 0);
}

SYSCALL_DEFINE1(fdatasync, unsigned int, fd)
{
	return do_fsync(fd, 1);
}

static void sync_inodes_one_sb(struct super_block *sb)
{
	struct inode *inode;

	list_for_each_entry(inode, &sb->s_inodes, i_sb_list)
		cond_resched();
}

noinline void ksys_sync(void)
{
	sync_inodes_one_sb(root_mnt->mnt_sb);
}

SYSCALL_DEFINE0(sync)
{
	ksys_sync();
	return 0;
}
