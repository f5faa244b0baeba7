// SPDX-License-Identifier: GPL-2.0-or-later
/* Pipes: a page between a writer and a reader. */
#include <linux/fdtable.h>
#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/pipe_fs_i.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>
#include <linux/wait.h>

static struct vfsmount *pipe_mnt;

static inline bool pipe_empty(const struct pipe_inode_info *pipe)
{
	return pipe->head == pipe->tail;
}
static inline bool pipe_full(const struct pipe_inode_info *pipe)
{
	return pipe->head - pipe->tail == PAGE_SIZE;
}

static noinline bool pipe_readable(const struct pipe_inode_info *pipe)
{
	return !pipe_empty(pipe) || !READ_ONCE(pipe->writers);
}

static noinline bool pipe_writable(const struct pipe_inode_info *pipe)
{
	return !pipe_full(pipe) || !READ_ONCE(pipe->readers);
}

static ssize_t pipe_read(struct kiocb *iocb, struct iov_iter *to)
{
	struct file *filp = iocb->ki_filp;
	struct pipe_inode_info *pipe = filp->private_data;
	ssize_t ret = 0;

	mutex_lock(&pipe->mutex);
	while (to->count) {
		unsigned int offset = pipe->tail & (PAGE_SIZE - 1);
		size_t n = min_t(size_t, pipe->head - pipe->tail, PAGE_SIZE - offset);

		if (n) {
			n = copy_to_iter(pipe->buf + offset, n, to);
			if (!n) {
				ret = ret ?: -EFAULT;
				break;
			}
			pipe->tail += n;
			ret += n;
			continue;
		}
		if (ret || !pipe->writers)
			break;
		if (filp->f_flags & O_NONBLOCK) {
			ret = -EAGAIN;
			break;
		}
		mutex_unlock(&pipe->mutex);
		if (wait_event_interruptible(pipe->rd_wait, pipe_readable(pipe)))
			return -ERESTARTSYS;
		mutex_lock(&pipe->mutex);
	}
	mutex_unlock(&pipe->mutex);
	if (ret > 0)
		wake_up_interruptible(&pipe->wr_wait);
	return ret;
}

static ssize_t pipe_write(struct kiocb *iocb, struct iov_iter *from)
{
	struct file *filp = iocb->ki_filp;
	struct pipe_inode_info *pipe = filp->private_data;
	ssize_t ret = 0;

	mutex_lock(&pipe->mutex);
	while (from->count) {
		unsigned int offset = pipe->head & (PAGE_SIZE - 1);
		size_t n = min_t(size_t, PAGE_SIZE - (pipe->head - pipe->tail), PAGE_SIZE - offset);

		if (!pipe->readers) {
			send_sig(SIGPIPE, current, 0);
			ret = ret ?: -EPIPE;
			break;
		}
		if (n) {
			n = copy_from_iter(pipe->buf + offset, n, from);
			if (!n) {
				ret = ret ?: -EFAULT;
				break;
			}
			pipe->head += n;
			ret += n;
			continue;
		}
		if (filp->f_flags & O_NONBLOCK) {
			ret = ret ?: -EAGAIN;
			break;
		}
		mutex_unlock(&pipe->mutex);
		wake_up_interruptible(&pipe->rd_wait);
		if (wait_event_interruptible(pipe->wr_wait, pipe_writable(pipe)))
			return ret ?: -ERESTARTSYS;
		mutex_lock(&pipe->mutex);
	}
	mutex_unlock(&pipe->mutex);
	if (ret > 0)
		wake_up_interruptible(&pipe->rd_wait);
	return ret;
}

static noinline void free_pipe_info(struct pipe_inode_info *pipe)
{
	free_page((unsigned long)pipe->buf);
	kfree(pipe);
}

static int pipe_release(struct inode *inode, struct file *file)
{
	struct pipe_inode_info *pipe = file->private_data;

	if (file->f_mode & FMODE_READ)
		pipe->readers--;
	if (file->f_mode & FMODE_WRITE)
		pipe->writers--;
	wake_up_all(&pipe->rd_wait);
	wake_up_all(&pipe->wr_wait);
	if (!pipe->readers && !pipe->writers)
		free_pipe_info(pipe);
	return 0;
}

static const struct file_operations pipefifo_fops = {
	.llseek = no_llseek,
	.read_iter = pipe_read,
	.write_iter = pipe_write,
	.release = pipe_release,
};

static noinline struct pipe_inode_info *alloc_pipe_info(void)
{
	struct pipe_inode_info *pipe = kzalloc(sizeof(*pipe), GFP_KERNEL);

	if (!pipe)
		return NULL;
	pipe->buf = (char *)__get_free_page(GFP_KERNEL);
	if (!pipe->buf) {
		kfree(pipe);
		return NULL;
	}
	mutex_init(&pipe->mutex);
	init_waitqueue_head(&pipe->rd_wait);
	init_waitqueue_head(&pipe->wr_wait);
	pipe->readers = pipe->writers = 1;
	return pipe;
}

static noinline int create_pipe_files(struct file **res, int flags)
{
	static const struct qstr name = { .name = "pipe", .len = 4 };
	struct inode *inode = new_inode(pipe_mnt->mnt_sb);
	struct pipe_inode_info *pipe = alloc_pipe_info();
	struct dentry *dentry = d_alloc(pipe_mnt->mnt_root, &name);
	struct path path = { pipe_mnt, dentry };

	if (!inode || !pipe || !dentry)
		return -ENFILE;
	inode->i_ino = get_next_ino();
	inode_init_owner(inode, NULL, S_IFIFO | 0600);
	inode->i_fop = &pipefifo_fops;
	d_instantiate(dentry, inode);
	res[0] = alloc_file(&path, O_RDONLY | (flags & O_NONBLOCK), &pipefifo_fops);
	res[1] = alloc_file(&path, O_WRONLY | (flags & O_NONBLOCK), &pipefifo_fops);
	if (IS_ERR(res[0]) || IS_ERR(res[1]))
		return -ENFILE;
	dget(dentry);
	res[0]->private_data = res[1]->private_data = pipe;
	return 0;
}

static noinline int __do_pipe_flags(int *fd, struct file **files, int flags)
{
	int error = create_pipe_files(files, flags);

	if (error)
		return error;
	fd[0] = get_unused_fd_flags(flags);
	fd[1] = fd[0] < 0 ? fd[0] : get_unused_fd_flags(flags);
	if (fd[1] >= 0)
		return 0;
	if (fd[0] >= 0)
		put_unused_fd(fd[0]);
	fput(files[0]);
	fput(files[1]);
	return fd[1];
}

static noinline int do_pipe2(int __user *fildes, int flags)
{
	struct file *files[2];
	int fd[2], error = __do_pipe_flags(fd, files, flags);

	if (error)
		return error;
	if (copy_to_user(fildes, fd, sizeof(fd))) {
		fput(files[0]);
		fput(files[1]);
		put_unused_fd(fd[0]);
		put_unused_fd(fd[1]);
		return -EFAULT;
	}
	fd_install(fd[0], files[0]);
	fd_install(fd[1], files[1]);
	return 0;
}

SYSCALL_DEFINE2(pipe2, int __user *, fildes, int, flags)
{
	return do_pipe2(fildes, flags);
}

SYSCALL_DEFINE1(pipe, int __user *, fildes)
{
	return do_pipe2(fildes, 0);
}

/*
 * Return a file for one end, O_RDONLY or O_WRONLY, of the pipe that other is an end of. If other
 * is NULL, make a new pipe, whose other end has no file yet. An ERR_PTR if memory is short.
 */
struct file *pipe_end(struct file *other, int flags)
{
	struct pipe_inode_info *pipe;
	struct file *ends[2], *file;
	bool writes = (flags & O_ACCMODE) != O_RDONLY;
	int error;

	if (!other) {
		error = create_pipe_files(ends, flags);
		if (error)
			return ERR_PTR(error);
		fput(ends[!writes]);
		return ends[writes];
	}
	file = alloc_file(&other->f_path, flags, &pipefifo_fops);
	if (IS_ERR(file))
		return file;
	dget(other->f_path.dentry);
	pipe = file->private_data = other->private_data;
	if (writes)
		pipe->writers++;
	else
		pipe->readers++;
	return file;
}

static int pipefs_init_fs_context(struct super_block *sb)
{
	struct inode *inode = new_inode(sb);

	inode->i_mode = S_IFDIR | 0555;
	sb->s_root = d_make_root(inode);
	return sb->s_root ? 0 : -ENOMEM;
}

static struct file_system_type pipe_fs_type = {
	.name = "pipefs",
	.fill_super = pipefs_init_fs_context,
};

#include <linux/init.h>
static int __init init_pipe_fs(void)
{
	int err = register_filesystem(&pipe_fs_type);

	if (err)
		return err;
	pipe_mnt = vfs_kern_mount(&pipe_fs_type);
	return PTR_ERR_OR_ZERO(pipe_mnt);
}
fs_initcall(init_pipe_fs);
