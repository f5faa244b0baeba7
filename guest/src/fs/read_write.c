// SPDX-License-Identifier: GPL-2.0-or-later
/* Reading and writing. */
/* Whole prologues: room for an optimised probe behind the entry nop. */
#pragma GCC optimize("no-shrink-wrap")
#include <linux/fdtable.h>
#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/security.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>

static atomic_long_t rchar, wchar, syscr, syscw;

loff_t generic_file_llseek(struct file *file, loff_t offset, int whence)
{
	loff_t eof = i_size_read(file_inode(file));

	switch (whence) {
	case SEEK_END:  offset += eof; break;
	case SEEK_DATA: /* all of it is data, and the end is a hole */
	case SEEK_HOLE:
		if ((unsigned long)offset >= (unsigned long)eof)
			return -ENXIO;
		if (whence == SEEK_HOLE)
			offset = eof;
		break;
	case SEEK_CUR: offset += file->f_pos; break;
	case SEEK_SET: break;
	default:       return -EINVAL;
	}
	if (offset < 0)
		return -EINVAL;
	file->f_pos = offset;
	return offset;
}

loff_t no_llseek(struct file *file, loff_t offset, int whence)
{
	return -ESPIPE;
}

loff_t vfs_llseek(struct file *file, loff_t offset, int whence)
{
	loff_t (*fn)(struct file *, loff_t, int) = no_llseek;

	if (file->f_mode & FMODE_LSEEK)
		fn = file->f_op->llseek ? file->f_op->llseek : generic_file_llseek;
	return fn(file, offset, whence);
}

static noinline struct file *fdget_pos(unsigned int fd)
{
	struct file *file = fget(fd);

	if (file)
		mutex_lock(&file->f_pos_lock);
	return file;
}

static noinline void fdput_pos(struct file *file)
{
	mutex_unlock(&file->f_pos_lock);
	fput(file);
}

static noinline off_t ksys_lseek(unsigned int fd, off_t offset, unsigned int whence)
{
	struct file *file = fdget_pos(fd);
	off_t retval;

	if (!file)
		return -EBADF;
	retval = vfs_llseek(file, offset, whence);
	fdput_pos(file);
	return retval;
}

SYSCALL_DEFINE3(lseek, unsigned int, fd, off_t, offset, unsigned int, whence)
{
	return ksys_lseek(fd, offset, whence);
}

noinline int rw_verify_area(int read_write, struct file *file, const loff_t *ppos, size_t count)
{
	if (unlikely((ssize_t)count < 0))
		return -EINVAL;
	if (ppos && unlikely(*ppos < 0 || (loff_t)(*ppos + count) < 0))
		return -EINVAL;
	return security_file_permission(file, read_write ? MAY_WRITE : MAY_READ);
}

static noinline ssize_t new_sync_read(struct file *filp, char __user *buf, size_t len, loff_t *ppos)
{
	struct kiocb kiocb = { .ki_filp = filp, .ki_pos = ppos ? *ppos : 0 };
	struct iov_iter iter = { .base = buf, .count = len };
	ssize_t ret;

	ret = filp->f_op->read_iter(&kiocb, &iter);
	if (ppos)
		*ppos = kiocb.ki_pos;
	return ret;
}

static noinline ssize_t new_sync_write(struct file *filp, const char __user *buf, size_t len,
				       loff_t *ppos)
{
	struct kiocb kiocb = { .ki_filp = filp, .ki_pos = ppos ? *ppos : 0 };
	struct iov_iter iter = { .base = (char __user *)buf, .count = len, .write = true };
	ssize_t ret;

	ret = filp->f_op->write_iter(&kiocb, &iter);
	if (ret > 0 && ppos)
		*ppos = kiocb.ki_pos;
	return ret;
}

ssize_t vfs_read(struct file *file, char __user *buf, size_t count, loff_t *pos)
{
	ssize_t ret;

	if (!(file->f_mode & FMODE_READ))
		return -EBADF;
	if (!file->f_op->read && !file->f_op->read_iter)
		return -EINVAL;
	if (unlikely(!access_ok(buf, count)))
		return -EFAULT;
	ret = rw_verify_area(0, file, pos, count);
	if (ret)
		return ret;
	if (count > MAX_RW_COUNT)
		count = MAX_RW_COUNT;
	if (file->f_op->read)
		ret = file->f_op->read(file, buf, count, pos);
	else
		ret = new_sync_read(file, buf, count, pos);
	if (ret > 0)
		atomic_long_add(ret, &rchar);
	atomic_long_inc(&syscr);
	return ret;
}

ssize_t vfs_write(struct file *file, const char __user *buf, size_t count, loff_t *pos)
{
	ssize_t ret;

	if (!(file->f_mode & FMODE_WRITE))
		return -EBADF;
	if (!file->f_op->write && !file->f_op->write_iter)
		return -EINVAL;
	if (unlikely(!access_ok(buf, count)))
		return -EFAULT;
	ret = rw_verify_area(1, file, pos, count);
	if (ret)
		return ret;
	if (count > MAX_RW_COUNT)
		count = MAX_RW_COUNT;
	if (file->f_op->write)
		ret = file->f_op->write(file, buf, count, pos);
	else
		ret = new_sync_write(file, buf, count, pos);
	if (ret > 0)
		atomic_long_add(ret, &wchar);
	atomic_long_inc(&syscw);
	return ret;
}

static noinline ssize_t __kernel_read(struct file *file, void *buf, size_t count, loff_t *pos)
{
	struct kiocb kiocb = { .ki_filp = file, .ki_pos = pos ? *pos : 0 };
	struct iov_iter iter = { .kbase = buf, .count = count };
	ssize_t ret;

	if (!(file->f_mode & FMODE_READ) || !file->f_op->read_iter)
		return -EINVAL;
	ret = file->f_op->read_iter(&kiocb, &iter);
	if (ret > 0 && pos)
		*pos = kiocb.ki_pos;
	return ret;
}

noinline ssize_t kernel_read(struct file *file, void *buf, size_t count, loff_t *pos)
{
	ssize_t ret = rw_verify_area(0, file, pos, count);

	return ret ? ret : __kernel_read(file, buf, count, pos);
}

static noinline ssize_t __kernel_write(struct file *file, const void *buf, size_t count,
				       loff_t *pos)
{
	struct kiocb kiocb = { .ki_filp = file, .ki_pos = pos ? *pos : 0 };
	struct iov_iter iter = { .kbase = (void *)buf, .count = count, .write = true };
	ssize_t ret;

	if (!(file->f_mode & FMODE_WRITE) || !file->f_op->write_iter)
		return -EINVAL;
	ret = file->f_op->write_iter(&kiocb, &iter);
	if (ret > 0 && pos)
		*pos = kiocb.ki_pos;
	return ret;
}

ssize_t kernel_write(struct file *file, const void *buf, size_t count, loff_t *pos)
{
	ssize_t ret = rw_verify_area(1, file, pos, count);

	return ret ? ret : __kernel_write(file, buf, count, pos);
}

noinline ssize_t ksys_read(unsigned int fd, char __user *buf, size_t count)
{
	struct file *file = fdget_pos(fd);
	ssize_t ret = -EBADF;
	loff_t pos;

	if (!file)
		return ret;
	pos = file->f_pos;
	ret = vfs_read(file, buf, count, &pos);
	if (ret >= 0)
		file->f_pos = pos;
	fdput_pos(file);
	return ret;
}

SYSCALL_DEFINE3(read, unsigned int, fd, char __user *, buf, size_t, count)
{
	return ksys_read(fd, buf, count);
}

noinline ssize_t ksys_write(unsigned int fd, const char __user *buf, size_t count)
{
	struct file *file = fdget_pos(fd);
	ssize_t ret = -EBADF;
	loff_t pos;

	if (!file)
		return ret;
	pos = file->f_pos;
	ret = vfs_write(file, buf, count, &pos);
	if (ret >= 0)
		file->f_pos = pos;
	fdput_pos(file);
	return ret;
}

SYSCALL_DEFINE3(write, unsigned int, fd, const char __user *, buf, size_t, count)
{
	return ksys_write(fd, buf, count);
}

ssize_t ksys_pread64(unsigned int fd, char __user *buf, size_t count, loff_t pos)
{
	struct file *file;
	ssize_t ret = -ESPIPE;

	if (pos < 0)
		return -EINVAL;
	file = fget(fd);
	if (!file)
		return -EBADF;
	if (file->f_mode & FMODE_LSEEK)
		ret = vfs_read(file, buf, count, &pos);
	fput(file);
	return ret;
}

SYSCALL_DEFINE4(pread64, unsigned int, fd, char __user *, buf, size_t, count, loff_t, pos)
{
	return ksys_pread64(fd, buf, count, pos);
}

ssize_t ksys_pwrite64(unsigned int fd, const char __user *buf, size_t count, loff_t pos)
{
	struct file *file;
	ssize_t ret = -ESPIPE;

	if (pos < 0)
		return -EINVAL;
	file = fget(fd);
	if (!file)
		return -EBADF;
	if (file->f_mode & FMODE_PWRITE)
		ret = vfs_write(file, buf, count, &pos);
	fput(file);
	return ret;
}

SYSCALL_DEFINE4(pwrite64, unsigned int, fd, const char __user *, buf, size_t, count, loff_t, pos)
{
	return ksys_pwrite64(fd, buf, count, pos);
}

/* The bytes of all segments, -errno. */
static noinline ssize_t import_iovec(const struct iovec __user *vec, unsigned long vlen)
{
	ssize_t total = 0;
	struct iovec iov;

	if (vlen > 1024)
		return -EINVAL;
	for (; vlen; vlen--, vec++) {
		if (copy_from_user(&iov, vec, sizeof(iov)))
			return -EFAULT;
		if ((ssize_t)iov.iov_len < 0)
			return -EINVAL;
		if (!access_ok(iov.iov_base, iov.iov_len))
			return -EFAULT;
		total += min_t(size_t, iov.iov_len, MAX_RW_COUNT - total);
	}
	return total;
}

/* The file sees an empty segment only if that comes first. */
static noinline ssize_t do_loop_readv_writev(struct file *file, const struct iovec __user *vec,
					     unsigned long vlen, loff_t *pos, bool write)
{
	const struct file_operations *fop = file->f_op;
	ssize_t ret = 0, n;
	struct iovec iov;
	unsigned long i;

	for (i = 0; i < vlen; i++) {
		if (copy_from_user(&iov, vec + i, sizeof(iov)))
			return ret ? ret : -EFAULT;
		if (i && !iov.iov_len)
			continue;
		if (write)
			n = fop->write ? fop->write(file, iov.iov_base, iov.iov_len, pos) :
					 new_sync_write(file, iov.iov_base, iov.iov_len, pos);
		else
			n = fop->read ? fop->read(file, iov.iov_base, iov.iov_len, pos) :
					new_sync_read(file, iov.iov_base, iov.iov_len, pos);
		if (n < 0)
			return ret ? ret : n;
		ret += n;
		if ((size_t)n != iov.iov_len)
			break;
	}
	return ret;
}

static noinline ssize_t vfs_readv(struct file *file, const struct iovec __user *vec,
				  unsigned long vlen, loff_t *pos)
{
	ssize_t ret = import_iovec(vec, vlen), total = ret;

	if (ret < 0)
		return ret;
	if (!(file->f_mode & FMODE_READ))
		return -EBADF;
	if (!file->f_op->read && !file->f_op->read_iter)
		return -EINVAL;
	if (!total)
		return 0;
	ret = rw_verify_area(0, file, pos, total);
	return ret ? ret : do_loop_readv_writev(file, vec, vlen, pos, false);
}

static noinline ssize_t vfs_writev(struct file *file, const struct iovec __user *vec,
				   unsigned long vlen, loff_t *pos)
{
	ssize_t ret = import_iovec(vec, vlen), total = ret;

	if (ret < 0)
		return ret;
	if (!(file->f_mode & FMODE_WRITE))
		return -EBADF;
	if (!file->f_op->write && !file->f_op->write_iter)
		return -EINVAL;
	if (!total)
		return 0;
	ret = rw_verify_area(1, file, pos, total);
	return ret ? ret : do_loop_readv_writev(file, vec, vlen, pos, true);
}

static noinline ssize_t do_readv(unsigned long fd, const struct iovec __user *vec,
				 unsigned long vlen)
{
	struct file *file = fdget_pos(fd);
	ssize_t ret = -EBADF;
	loff_t pos;

	if (file) {
		pos = file->f_pos;
		ret = vfs_readv(file, vec, vlen, &pos);
		if (ret >= 0)
			file->f_pos = pos;
		fdput_pos(file);
	}
	if (ret > 0)
		atomic_long_add(ret, &rchar);
	atomic_long_inc(&syscr);
	return ret;
}

static noinline ssize_t do_writev(unsigned long fd, const struct iovec __user *vec,
				  unsigned long vlen)
{
	struct file *file = fdget_pos(fd);
	ssize_t ret = -EBADF;
	loff_t pos;

	if (file) {
		pos = file->f_pos;
		ret = vfs_writev(file, vec, vlen, &pos);
		if (ret >= 0)
			file->f_pos = pos;
		fdput_pos(file);
	}
	if (ret > 0)
		atomic_long_add(ret, &wchar);
	atomic_long_inc(&syscw);
	return ret;
}

SYSCALL_DEFINE3(readv, unsigned long, fd, const struct iovec __user *, vec, unsigned long, vlen)
{
	return do_readv(fd, vec, vlen);
}

SYSCALL_DEFINE3(writev, unsigned long, fd, const struct iovec __user *, vec, unsigned long, vlen)
{
	return do_writev(fd, vec, vlen);
}

static noinline long do_sendfile(int out_fd, int in_fd, size_t count)
{
	struct file *in = fget(in_fd), *out = fget(out_fd);
	char buf[256];
	long done = 0, n = in && out ? 0 : -EBADF;

	while (!n && count > (size_t)done) {
		n = kernel_read(in, buf, min(count - done, sizeof(buf)), &in->f_pos);
		if (n <= 0)
			break;
		n = kernel_write(out, buf, n, &out->f_pos);
		if (n <= 0)
			break;
		done += n;
		n = 0;
	}
	if (in)
		fput(in);
	if (out)
		fput(out);
	return done ? done : n;
}

SYSCALL_DEFINE4(sendfile64, int, out_fd, int, in_fd, loff_t __user *, offset, size_t, count)
{
	return offset ? -EINVAL : do_sendfile(out_fd, in_fd, count);
}
