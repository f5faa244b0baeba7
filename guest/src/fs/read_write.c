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

noinline loff_t vfs_llseek(struct file *file, loff_t offset, int whence)
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

DEFINE_FREE(fdput_pos, struct file)

static noinline off_t ksys_lseek(unsigned int fd, off_t offset, unsigned int whence)
{
	struct file *file __free(fdput_pos) = fdget_pos(fd);

	return file ? vfs_llseek(file, offset, whence) : -EBADF;
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

/* Ask the file: by its own function, or by that for iov_iter. */
static __always_inline ssize_t file_rw(struct file *file, char __user *buf, size_t len, loff_t *pos,
				       bool write)
{
	const struct file_operations *fop = file->f_op;

	if (write)
		return fop->write ? fop->write(file, buf, len, pos) :
				    new_sync_write(file, buf, len, pos);
	return fop->read ? fop->read(file, buf, len, pos) : new_sync_read(file, buf, len, pos);
}

static __always_inline int may_rw(const struct file *file, bool write)
{
	const struct file_operations *fop = file->f_op;

	if (!(file->f_mode & (write ? FMODE_WRITE : FMODE_READ)))
		return -EBADF;
	return (write ? fop->write || fop->write_iter : fop->read || fop->read_iter) ? 0 : -EINVAL;
}

static __always_inline void account_rw(ssize_t ret, bool write)
{
	if (ret > 0)
		atomic_long_add(ret, write ? &wchar : &rchar);
	atomic_long_inc(write ? &syscw : &syscr);
}

static __always_inline ssize_t vfs_rw(struct file *file, char __user *buf, size_t count,
				      loff_t *pos, bool write)
{
	ssize_t ret = may_rw(file, write);

	if (ret)
		return ret;
	if (unlikely(!access_ok(buf, count)))
		return -EFAULT;
	ret = rw_verify_area(write, file, pos, count);
	if (ret)
		return ret;
	ret = file_rw(file, buf, min(count, MAX_RW_COUNT), pos, write);
	account_rw(ret, write);
	return ret;
}

ssize_t vfs_read(struct file *file, char __user *buf, size_t count, loff_t *pos)
{
	return vfs_rw(file, buf, count, pos, false);
}

ssize_t vfs_write(struct file *file, const char __user *buf, size_t count, loff_t *pos)
{
	return vfs_rw(file, (char __user *)buf, count, pos, true);
}

static __always_inline ssize_t __kernel_rw(struct file *file, void *buf, size_t count, loff_t *pos,
					   bool write)
{
	struct kiocb kiocb = { .ki_filp = file, .ki_pos = pos ? *pos : 0 };
	struct iov_iter iter = { .kbase = buf, .count = count, .write = write };
	const struct file_operations *fop = file->f_op;
	ssize_t ret;

	if (!(file->f_mode & (write ? FMODE_WRITE : FMODE_READ)) ||
	    !(write ? fop->write_iter : fop->read_iter))
		return -EINVAL;
	ret = (write ? fop->write_iter : fop->read_iter)(&kiocb, &iter);
	if (ret > 0 && pos)
		*pos = kiocb.ki_pos;
	return ret;
}

static noinline ssize_t __kernel_read(struct file *file, void *buf, size_t count, loff_t *pos)
{
	return __kernel_rw(file, buf, count, pos, false);
}

noinline ssize_t kernel_read(struct file *file, void *buf, size_t count, loff_t *pos)
{
	return rw_verify_area(0, file, pos, count) ?: __kernel_read(file, buf, count, pos);
}

static noinline ssize_t __kernel_write(struct file *file, const void *buf, size_t count,
				       loff_t *pos)
{
	return __kernel_rw(file, (void *)buf, count, pos, true);
}

noinline ssize_t kernel_write(struct file *file, const void *buf, size_t count, loff_t *pos)
{
	return rw_verify_area(1, file, pos, count) ?: __kernel_write(file, buf, count, pos);
}

static __always_inline ssize_t ksys_rw(unsigned int fd, char __user *buf, size_t count, bool write)
{
	struct file *file __free(fdput_pos) = fdget_pos(fd);
	ssize_t ret;
	loff_t pos;

	if (!file)
		return -EBADF;
	pos = file->f_pos;
	ret = write ? vfs_write(file, buf, count, &pos) : vfs_read(file, buf, count, &pos);
	if (ret >= 0)
		file->f_pos = pos;
	return ret;
}

noinline ssize_t ksys_read(unsigned int fd, char __user *buf, size_t count)
{
	return ksys_rw(fd, buf, count, false);
}

SYSCALL_DEFINE3(read, unsigned int, fd, char __user *, buf, size_t, count)
{
	return ksys_read(fd, buf, count);
}

noinline ssize_t ksys_write(unsigned int fd, const char __user *buf, size_t count)
{
	return ksys_rw(fd, (char __user *)buf, count, true);
}

SYSCALL_DEFINE3(write, unsigned int, fd, const char __user *, buf, size_t, count)
{
	return ksys_write(fd, buf, count);
}

noinline ssize_t ksys_pread64(unsigned int fd, char __user *buf, size_t count, loff_t pos)
{
	if (pos < 0)
		return -EINVAL;

	struct file *file __free(fput) = fget(fd);

	if (!file)
		return -EBADF;
	return file->f_mode & FMODE_LSEEK ? vfs_read(file, buf, count, &pos) : -ESPIPE;
}

SYSCALL_DEFINE4(pread64, unsigned int, fd, char __user *, buf, size_t, count, loff_t, pos)
{
	return ksys_pread64(fd, buf, count, pos);
}

noinline ssize_t ksys_pwrite64(unsigned int fd, const char __user *buf, size_t count, loff_t pos)
{
	if (pos < 0)
		return -EINVAL;

	struct file *file __free(fput) = fget(fd);

	if (!file)
		return -EBADF;
	return file->f_mode & FMODE_PWRITE ? vfs_write(file, buf, count, &pos) : -ESPIPE;
}

SYSCALL_DEFINE4(pwrite64, unsigned int, fd, const char __user *, buf, size_t, count, loff_t, pos)
{
	return ksys_pwrite64(fd, buf, count, pos);
}

/* Return the bytes of all segments, or -errno. */
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

/* Read or write the segments. The file sees an empty one only if that comes first. */
static noinline ssize_t do_loop_readv_writev(struct file *file, const struct iovec __user *vec,
					     unsigned long vlen, loff_t *pos, bool write)
{
	ssize_t ret = 0, n;
	struct iovec iov;

	for (unsigned long i = 0; i < vlen; i++) {
		if (copy_from_user(&iov, vec + i, sizeof(iov)))
			return ret ?: -EFAULT;
		if (i && !iov.iov_len)
			continue;
		n = file_rw(file, iov.iov_base, iov.iov_len, pos, write);
		if (n < 0)
			return ret ?: n;
		ret += n;
		if ((size_t)n != iov.iov_len)
			break;
	}
	return ret;
}

static __always_inline ssize_t vfs_rwv(struct file *file, const struct iovec __user *vec,
				       unsigned long vlen, loff_t *pos, bool write)
{
	ssize_t total = import_iovec(vec, vlen), ret;

	if (total < 0)
		return total;
	ret = may_rw(file, write);
	if (ret || !total)
		return ret;
	ret = rw_verify_area(write, file, pos, total);
	return ret ?: do_loop_readv_writev(file, vec, vlen, pos, write);
}

static noinline ssize_t vfs_readv(struct file *file, const struct iovec __user *vec,
				  unsigned long vlen, loff_t *pos)
{
	return vfs_rwv(file, vec, vlen, pos, false);
}

static noinline ssize_t vfs_writev(struct file *file, const struct iovec __user *vec,
				   unsigned long vlen, loff_t *pos)
{
	return vfs_rwv(file, vec, vlen, pos, true);
}

static __always_inline ssize_t do_rwv(unsigned long fd, const struct iovec __user *vec,
				      unsigned long vlen, bool write)
{
	struct file *file = fdget_pos(fd);
	ssize_t ret = -EBADF;
	loff_t pos;

	if (file) {
		pos = file->f_pos;
		ret = write ? vfs_writev(file, vec, vlen, &pos) : vfs_readv(file, vec, vlen, &pos);
		if (ret >= 0)
			file->f_pos = pos;
		fdput_pos(file);
	}
	account_rw(ret, write);
	return ret;
}

static noinline ssize_t do_readv(unsigned long fd, const struct iovec __user *vec,
				 unsigned long vlen)
{
	return do_rwv(fd, vec, vlen, false);
}

static noinline ssize_t do_writev(unsigned long fd, const struct iovec __user *vec,
				  unsigned long vlen)
{
	return do_rwv(fd, vec, vlen, true);
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
	return done ?: n;
}

SYSCALL_DEFINE4(sendfile64, int, out_fd, int, in_fd, loff_t __user *, offset, size_t, count)
{
	return offset ? -EINVAL : do_sendfile(out_fd, in_fd, count);
}
