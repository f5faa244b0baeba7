// SPDX-License-Identifier: GPL-2.0-or-later
/* Reading directories. */
#include <linux/fdtable.h>
#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>

struct linux_dirent {
	unsigned long d_ino, d_off;
	u16 d_reclen;
	char d_name[]; /* the type is the last byte */
};
struct linux_dirent64 {
	u64 d_ino;
	s64 d_off;
	u16 d_reclen;
	u8 d_type;
	char d_name[];
};
struct getdents_callback {
	struct dir_context ctx;
	char __user *current_dir;
	int count, error;
};

int iterate_dir(struct file *file, struct dir_context *ctx)
{
	struct inode *inode = file_inode(file);
	int res;

	if (!file->f_op->iterate_shared)
		return -ENOTDIR;
	inode_lock(inode);
	ctx->pos = file->f_pos;
	res = file->f_op->iterate_shared(file, ctx);
	file->f_pos = ctx->pos;
	inode_unlock(inode);
	touch_atime(&file->f_path);
	return res;
}

static int verify_dirent_name(const char *name, int len)
{
	return len <= 0 || len >= PATH_MAX || memchr(name, '/', len) ? -EIO : 0;
}

/* Copy an entry to the caller; return false if there is no room for it. */
static noinline bool put_dirent(struct getdents_callback *buf, const void *dirent, int reclen)
{
	buf->error = -EINVAL;
	if (reclen > buf->count)
		return false;
	buf->error = -EFAULT;
	if (copy_to_user(buf->current_dir, dirent, reclen))
		return false;
	buf->error = 0;
	buf->current_dir += reclen;
	buf->count -= reclen;
	return true;
}

/* Fill in an entry of a type, whose d_type `set` sets; so many bytes stand behind its name. */
#define FILLDIR(function, type, behind, set) \
static bool function(struct dir_context *ctx, const char *name, int namlen, loff_t offset, u64 ino, \
		     unsigned int d_type) \
{ \
	struct getdents_callback *buf = container_of(ctx, struct getdents_callback, ctx); \
	int reclen = ALIGN(offsetof(type, d_name) + namlen + behind, 8); \
	union { \
		type d; \
		char room[offsetof(type, d_name) + NAME_MAX + behind + 8]; \
	} u; \
	buf->error = verify_dirent_name(name, namlen); \
	if (buf->error || namlen > NAME_MAX) \
		return false; \
	memset(&u, 0, reclen); \
	u.d.d_ino = ino; \
	u.d.d_off = offset + 1; \
	u.d.d_reclen = reclen; \
	set; \
	memcpy(u.d.d_name, name, namlen); \
	return put_dirent(buf, &u, reclen); \
}
FILLDIR(filldir, struct linux_dirent, 2, u.room[reclen - 1] = d_type)
FILLDIR(filldir64, struct linux_dirent64, 1, u.d.d_type = d_type)

static noinline int read_dirents(unsigned int fd, char __user *dirent, unsigned int count,
				 filldir_t actor)
{
	int size = min(count, (unsigned int)INT_MAX);
	struct getdents_callback buf = { .ctx.actor = actor, .current_dir = dirent, .count = size };
	struct file *f __free(fput) = fget(fd);
	int error;

	if (!f)
		return -EBADF;
	error = iterate_dir(f, &buf.ctx);
	if (buf.count < size)
		return size - buf.count;
	return error < 0 ? error : buf.error;
}

SYSCALL_DEFINE3(getdents, unsigned int, fd, char __user *, dirent, unsigned int, count)
{
	return read_dirents(fd, dirent, count, filldir);
}

SYSCALL_DEFINE3(getdents64, unsigned int, fd, char __user *, dirent, unsigned int, count)
{
	return read_dirents(fd, dirent, count, filldir64);
}
