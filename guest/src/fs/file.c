// SPDX-License-Identifier: GPL-2.0-or-later
/* The table of open files of a task. */
#include <linux/fdtable.h>
#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/string.h>
#include <linux/syscalls.h>

/* The limit of every task; a power of two. */
#define RLIMIT_NOFILE 4096
static struct kmem_cache *files_cachep;
static unsigned long last_id;

struct files_struct init_files = {
	.count = ATOMIC_INIT(1),
	.fdt = {
		.max_fds = NR_OPEN_DEFAULT,
		.fd = init_files.fd_array,
		.open_fds = init_files.open_fds_init,
		.close_on_exec = init_files.close_on_exec_init,
	},
};

static noinline struct files_struct *alloc_files(void)
{
	struct files_struct *newf = kmem_cache_zalloc(files_cachep, GFP_KERNEL);

	if (!newf)
		return NULL;
	atomic_set(&newf->count, 1);
	newf->id = ++last_id;
	newf->fdt = (struct fdtable){
		.max_fds = NR_OPEN_DEFAULT,
		.fd = newf->fd_array,
		.open_fds = newf->open_fds_init,
		.close_on_exec = newf->close_on_exec_init,
	};
	return newf;
}

static noinline void free_fdtable(struct fdtable *fdt)
{
	kfree(fdt->fd);
	kfree(fdt->open_fds);
	kfree(fdt->close_on_exec);
}

/* Make room for descriptor nr: a power of two, 64 at least. */
static noinline int expand_fdtable(struct files_struct *files, unsigned int nr)
{
	struct fdtable *fdt = &files->fdt, new = { .max_fds = fdt->max_fds };

	if (nr >= RLIMIT_NOFILE)
		return -EMFILE;
	while (new.max_fds <= nr)
		new.max_fds *= 2;
	new.fd = kcalloc(new.max_fds, sizeof(*new.fd), GFP_KERNEL);
	new.open_fds = kcalloc(new.max_fds / 64, 8, GFP_KERNEL);
	new.close_on_exec = kcalloc(new.max_fds / 64, 8, GFP_KERNEL);
	if (!new.fd || !new.open_fds || !new.close_on_exec) {
		free_fdtable(&new);
		return -ENOMEM;
	}
	memcpy(new.fd, fdt->fd, fdt->max_fds * sizeof(*new.fd));
	memcpy(new.open_fds, fdt->open_fds, fdt->max_fds / 8);
	memcpy(new.close_on_exec, fdt->close_on_exec, fdt->max_fds / 8);
	if (fdt->fd != files->fd_array)
		free_fdtable(fdt);
	*fdt = new;
	return 0;
}

static int expand_files(struct files_struct *files, unsigned int nr)
{
	return nr < files->fdt.max_fds ? 0 : expand_fdtable(files, nr);
}

static inline void __set_open_fd(unsigned int fd, struct fdtable *fdt)
{
	__set_bit(fd, fdt->open_fds);
}

static inline void set_close_on_exec(unsigned int fd, struct fdtable *fdt, bool on)
{
	if (on)
		__set_bit(fd, fdt->close_on_exec);
	else
		__clear_bit(fd, fdt->close_on_exec);
}

struct files_struct *dup_fd(struct files_struct *oldf)
{
	struct files_struct *newf = alloc_files();
	unsigned int next_fd = oldf->next_fd;

	if (!newf)
		return ERR_PTR(-ENOMEM);
	if (expand_files(newf, oldf->fdt.max_fds - 1)) {
		kmem_cache_free(files_cachep, newf);
		return ERR_PTR(-ENOMEM);
	}
	for (unsigned int fd = 0; fd < oldf->fdt.max_fds; fd++) {
		struct file *f = oldf->fdt.fd[fd];

		if (f && f->f_mode & FMODE_NOT_INHERITED)
			next_fd = min(next_fd, fd);
		if (!f || f->f_mode & FMODE_NOT_INHERITED)
			continue;
		newf->fdt.fd[fd] = get_file(f);
		__set_open_fd(fd, &newf->fdt);
		if (test_bit(fd, oldf->fdt.close_on_exec))
			__set_bit(fd, newf->fdt.close_on_exec);
	}
	newf->next_fd = next_fd;
	return newf;
}

static noinline void close_files(struct files_struct *files)
{
	for (unsigned int fd = 0; fd < files->fdt.max_fds; fd++) {
		struct file *file = xchg(&files->fdt.fd[fd], NULL);

		if (!file)
			continue;
		filp_close(file, files);
		cond_resched();
	}
}

noinline void put_files_struct(struct files_struct *files)
{
	if (!atomic_dec_and_test(&files->count))
		return;
	close_files(files);
	if (files->fdt.fd != files->fd_array)
		free_fdtable(&files->fdt);
	kmem_cache_free(files_cachep, files);
}

void exit_files(struct task_struct *tsk)
{
	struct files_struct *files = tsk->files;

	if (!files)
		return;
	tsk->files = NULL;
	put_files_struct(files);
}

static noinline unsigned int find_next_fd(struct fdtable *fdt, unsigned int start)
{
	while (start < fdt->max_fds && test_bit(start, fdt->open_fds))
		start++;
	return start;
}

int alloc_fd(unsigned int start, unsigned int flags)
{
	struct files_struct *files = current->files;
	unsigned int fd;
	int error;

	guard(spinlock)(&files->file_lock);
	fd = find_next_fd(&files->fdt, max(start, files->next_fd));
	error = expand_files(files, fd);
	if (error)
		return error;
	if (start <= files->next_fd)
		files->next_fd = fd + 1;
	__set_open_fd(fd, &files->fdt);
	set_close_on_exec(fd, &files->fdt, flags & O_CLOEXEC);
	return fd;
}

noinline int get_unused_fd_flags(unsigned int flags)
{
	return alloc_fd(0, flags);
}

static noinline void __put_unused_fd(struct files_struct *files, unsigned int fd)
{
	__clear_bit(fd, files->fdt.open_fds);
	if (fd < files->next_fd)
		files->next_fd = fd;
}

void put_unused_fd(unsigned int fd)
{
	guard(spinlock)(&current->files->file_lock);
	__put_unused_fd(current->files, fd);
}

noinline void fd_install(unsigned int fd, struct file *file)
{
	struct files_struct *files = current->files;

	BUG_ON(files->fdt.fd[fd] != NULL);
	smp_store_release(&files->fdt.fd[fd], file);
}

noinline struct file *fget(unsigned int fd)
{
	struct files_struct *files = current->files;
	struct file *file = NULL;

	if (files && fd < files->fdt.max_fds)
		file = READ_ONCE(files->fdt.fd[fd]);
	return file ? get_file(file) : NULL;
}

static noinline struct file *pick_file(struct files_struct *files, unsigned int fd)
{
	struct file *file = NULL;

	guard(spinlock)(&files->file_lock);
	if (fd < files->fdt.max_fds)
		file = files->fdt.fd[fd];
	if (file) {
		files->fdt.fd[fd] = NULL;
		__put_unused_fd(files, fd);
	}
	return file;
}

noinline int close_fd(unsigned int fd)
{
	struct files_struct *files = current->files;
	struct file *file = pick_file(files, fd);

	return file ? filp_close(file, files) : -EBADF;
}

void do_close_on_exec(struct files_struct *files)
{
	for (unsigned int fd = 0; fd < files->fdt.max_fds; fd++)
		if (test_bit(fd, files->fdt.close_on_exec) && files->fdt.fd[fd])
			close_fd(fd);
}

SYSCALL_DEFINE1(close, unsigned int, fd)
{
	return close_fd(fd);
}

static noinline int do_dup2(struct files_struct *files, struct file *file, unsigned int fd,
			    unsigned int flags)
{
	struct file *tofree = pick_file(files, fd);

	spin_lock(&files->file_lock);
	__set_open_fd(fd, &files->fdt);
	set_close_on_exec(fd, &files->fdt, flags & O_CLOEXEC);
	files->fdt.fd[fd] = get_file(file);
	spin_unlock(&files->file_lock);
	if (tofree)
		filp_close(tofree, files);
	return fd;
}

static int ksys_dup3(unsigned int oldfd, unsigned int newfd, int flags)
{
	if (flags & ~O_CLOEXEC || oldfd == newfd)
		return -EINVAL;
	if (newfd >= RLIMIT_NOFILE)
		return -EBADF;

	struct file *file __free(fput) = fget(oldfd);

	if (!file)
		return -EBADF;
	return expand_files(current->files, newfd) ?: do_dup2(current->files, file, newfd, flags);
}

SYSCALL_DEFINE3(dup3, unsigned int, oldfd, unsigned int, newfd, int, flags)
{
	return ksys_dup3(oldfd, newfd, flags);
}

SYSCALL_DEFINE2(dup2, unsigned int, oldfd, unsigned int, newfd)
{
	if (oldfd != newfd)
		return ksys_dup3(oldfd, newfd, 0);

	struct file *file __free(fput) = fget(oldfd);

	return file ? (long)oldfd : -EBADF;
}

SYSCALL_DEFINE1(dup, unsigned int, fildes)
{
	struct file *file = fget(fildes);
	int fd;

	if (!file)
		return -EBADF;
	fd = get_unused_fd_flags(0);
	if (fd >= 0)
		fd_install(fd, file);
	else
		fput(file);
	return fd;
}

#define F_DUPFD 0
#define F_GETFD 1
#define F_SETFD 2
#define F_GETFL 3
#define F_SETFL 4
#define F_DUPFD_CLOEXEC 1030
static noinline long do_fcntl(int fd, unsigned int cmd, unsigned long arg, struct file *filp)
{
	struct fdtable *fdt = &current->files->fdt;
	int new;

	switch (cmd) {
	case F_DUPFD:
	case F_DUPFD_CLOEXEC:
		if (arg >= RLIMIT_NOFILE)
			return -EINVAL;
		new = alloc_fd(arg, cmd == F_DUPFD_CLOEXEC ? O_CLOEXEC : 0);
		if (new >= 0)
			fd_install(new, get_file(filp));
		return new;
	case F_GETFD: return test_bit(fd, fdt->close_on_exec);
	case F_SETFD: set_close_on_exec(fd, fdt, arg & 1); return 0;
	case F_GETFL: return filp->f_flags;
	case F_SETFL:
		filp->f_flags = (filp->f_flags & ~(O_APPEND | O_NONBLOCK)) |
				(arg & (O_APPEND | O_NONBLOCK));
		return 0;
	default: return -EINVAL;
	}
}

SYSCALL_DEFINE3(fcntl, unsigned int, fd, unsigned int, cmd, unsigned long, arg)
{
	struct file *file __free(fput) = fget(fd);

	return file ? do_fcntl(fd, cmd, arg, file) : -EBADF;
}

void __init fdtable_init(void)
{
	files_cachep = KMEM_CACHE(files_struct, SLAB_HWCACHE_ALIGN | SLAB_PANIC);
}
