// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * System calls that a process of the host makes outside the mount, made here too by the
 * task that stands for it. The files are on the host: each path is made up for the time of
 * its use, below a root of its own, and an open file has no contents. Python says what the
 * host's call finds, so that ours ends as that will. kpfs/backends/guest/mirror.py is the caller.
 */
#include <kpfs/mirror.h>
#include <linux/err.h>
#include <linux/fdtable.h>
#include <linux/host.h>
#include <linux/kernel.h>
#include <linux/namei.h>
#include <linux/sched/signal.h>
#include <linux/string.h>

#define MIRROR_NR_CLOSE 3
#define MIRROR_NR_DUP 32
#define MIRROR_NR_DUP2 33
#define MIRROR_NR_EXIT 60
#define MIRROR_NR_FCNTL 72
#define MIRROR_NR_EXIT_GROUP 231
#define MIRROR_NR_DUP3 292

/* A descriptor of a process of the host; kpfs/backends/guest/task_book.py fills it in. */
struct mirror_fd {
	int fd;
	unsigned int mode;   /* of the file; S_IFIFO without a name: a pipe */
	unsigned int flags;  /* as for open(2) */
	unsigned int met;    /* MIRROR_MET_...: what descriptors before it have led to */
	unsigned long file;  /* number of its open file in this look, 0: it is not known */
	unsigned long pipe;  /* number of its pipe in this look, 0: it is none */
	unsigned long name;  /* address of the file's path, 0: it has none */
	unsigned long mount; /* it is a file of the mount */
};
#define MIRROR_MET_FILE 1
#define MIRROR_MET_PIPE 2

static struct {
	struct task_struct *task; /* whose call this is */
	struct mirror_call *call; /* counts what is left of it */
	unsigned int name;
	struct path root, pwd;           /* its own, in the meantime */
	struct file *kept[MIRROR_NAMES]; /* its own files, in whose place there is one of ours */
	unsigned long hidden[MIRROR_MAX_FD / 64]; /* numbers that are not to be given to a new file */
} mirror;

static struct vfsmount *mirror_mnt;
static const struct inode_operations mirror_dir_inode_operations, mirror_file_inode_operations;

static ssize_t mirror_advance(struct kiocb *iocb, size_t count)
{
	if (mirror.task != current)
		return 0;
	count = min(count, mirror.call->count);
	mirror.call->count -= count;
	iocb->ki_pos += count;
	return count;
}

static noinline ssize_t mirror_read_iter(struct kiocb *iocb, struct iov_iter *to)
{
	if (!to->kbase)
		return mirror_advance(iocb, to->count);
	memset(to->kbase, 0, to->count); /* a program that is executed */
	return to->count;
}

static ssize_t mirror_write_iter(struct kiocb *iocb, struct iov_iter *from)
{
	return mirror_advance(iocb, from->count);
}

/* Seek; Python says where the host's file ends, and its position. */
static loff_t mirror_llseek(struct file *file, loff_t offset, int whence)
{
	if (S_ISFIFO(file_inode(file)->i_mode))
		return -ESPIPE;
	if (mirror.task == current && whence == SEEK_CUR)
		file->f_pos = mirror.call->count;
	else if (mirror.task == current)
		file_inode(file)->i_size = mirror.call->count;
	return generic_file_llseek(file, offset, whence);
}

/* Let the call have O_DIRECT: the host's file system decides on that. */
static int mirror_open(struct inode *inode, struct file *file)
{
	file->f_mode |= FMODE_CAN_ODIRECT;
	return 0;
}

static const struct file_operations mirror_file_operations = {
	.open = mirror_open,
	.read_iter = mirror_read_iter,
	.write_iter = mirror_write_iter,
	.fsync = noop_fsync,
	.llseek = mirror_llseek,
};

static noinline struct inode *mirror_get_inode(struct super_block *sb, umode_t mode)
{
	struct inode *inode = new_inode(sb);

	if (!inode)
		return NULL;
	inode->i_ino = get_next_ino();
	inode_init_owner(inode, NULL, mode);
	inode->i_op = S_ISDIR(mode) ? &mirror_dir_inode_operations : &mirror_file_inode_operations;
	inode->i_fop = S_ISDIR(mode) ? &simple_dir_operations : &mirror_file_operations;
	return inode;
}

static int mirror_instantiate(struct dentry *dentry, umode_t mode)
{
	struct inode *inode = mirror_get_inode(dentry->d_sb, mode);

	if (!inode)
		return -ENOSPC;
	d_instantiate(dentry, inode);
	return 0;
}

/*
 * Return the mode of the next component of the call's paths. Where a directory is wanted it takes
 * counting to tell the last one.
 */
static umode_t mirror_next_mode(unsigned int flags)
{
	bool last = !(flags & LOOKUP_DIRECTORY) || (flags & (LOOKUP_EXCL | LOOKUP_OPEN));

	if (mirror.name == MIRROR_NAMES)
		return S_IFDIR | 0755;
	if (mirror.call->components[mirror.name])
		last |= !--mirror.call->components[mirror.name];
	return last ? mirror.call->name_mode[mirror.name++] : S_IFDIR | 0755;
}

static struct dentry *mirror_lookup(struct inode *dir, struct dentry *dentry, unsigned int flags)
{
	umode_t mode = mirror.task == current ? mirror_next_mode(flags) : 0;

	if (dentry->d_name.len > NAME_MAX)
		return ERR_PTR(-ENAMETOOLONG);
	return mode && mirror_instantiate(dentry, mode) ? ERR_PTR(-ENOMEM) : NULL;
}

/* Create a file, which is not entered in any directory: it goes with its last user. */
static noinline int mirror_create(struct inode *dir, struct dentry *dentry, umode_t mode, bool excl)
{
	return mirror.task == current ? mirror_instantiate(dentry, mode) : -EPERM;
}

static int mirror_mkdir(struct inode *dir, struct dentry *dentry, umode_t mode)
{
	return mirror_create(dir, dentry, mode | S_IFDIR, false);
}

static int mirror_symlink(struct inode *dir, struct dentry *dentry, const char *symname)
{
	return mirror_create(dir, dentry, S_IFLNK | 0777, false);
}

static int mirror_link(struct dentry *old_dentry, struct inode *dir, struct dentry *dentry)
{
	ihold(d_inode(old_dentry));
	d_instantiate(dentry, d_inode(old_dentry));
	return 0;
}

static int mirror_unlink(struct inode *dir, struct dentry *dentry)
{
	return 0;
}

static int mirror_rename(struct inode *old_dir, struct dentry *old_dentry, struct inode *new_dir,
			 struct dentry *new_dentry)
{
	return 0;
}

static int mirror_setattr(struct dentry *dentry, struct iattr *attr)
{
	return 0;
}

static noinline const char *mirror_get_link(struct dentry *dentry, struct inode *inode)
{
	return mirror.task == current && mirror.call->link ? (const char *)mirror.call->link : ".";
}

static const struct inode_operations mirror_file_inode_operations = {
	.setattr = mirror_setattr,
	.get_link = mirror_get_link,
};

static const struct inode_operations mirror_dir_inode_operations = {
	.lookup = mirror_lookup,
	.create = mirror_create,
	.link = mirror_link,
	.unlink = mirror_unlink,
	.symlink = mirror_symlink,
	.mkdir = mirror_mkdir,
	.rmdir = mirror_unlink,
	.rename = mirror_rename,
	.setattr = mirror_setattr,
};

/* Return a new entry of a directory that is held, with the caller's reference. */
static struct dentry *mirror_entry(struct dentry *parent, const char *name, size_t len,
				   umode_t mode)
{
	struct qstr qname = qstr_of(name, len);
	struct dentry *dentry = d_alloc(parent, &qname);

	if (dentry && mirror_instantiate(dentry, mode)) {
		dput(dentry);
		dentry = NULL;
	}
	return dentry;
}

/* Return the entry of a path below the root of our own, made with a mode, in directories. */
static struct dentry *mirror_place(const char *name, umode_t mode)
{
	struct dentry *dir = dget(mirror_mnt->mnt_root), *next;

	while (name && *(name += strspn(name, "/"))) {
		size_t len = strcspn(name, "/");
		bool last = !name[len + strspn(name + len, "/")];

		next = mirror_entry(dir, name, len, last ? mode : S_IFDIR | 0755);
		if (!next)
			break;
		dput(dir); /* next holds it */
		dir = next;
		name += len;
	}
	return dir;
}

static void mirror_enter_root(const char *cwd)
{
	struct fs_struct *fs = current->fs;
	struct dentry *dir = mirror_place(cwd, S_IFDIR | 0755);

	mirror.root = fs->root;
	mirror.pwd = fs->pwd;
	fs->root = (struct path){ mirror_mnt, dget(mirror_mnt->mnt_root) };
	fs->pwd = (struct path){ mirror_mnt, dir };
}

static void mirror_leave_root(void)
{
	struct fs_struct *fs = current->fs;

	path_put(&fs->root);
	path_put(&fs->pwd);
	fs->root = mirror.root;
	fs->pwd = mirror.pwd;
}

/* Return true if a mirrored call opened the file; others are the mount's. */
static bool mirror_opened(const struct file *file)
{
	return file->f_path.mnt == mirror_mnt || S_ISFIFO(file->f_inode->i_mode);
}

/* Return an open file of that name; its mode may be that of a directory. */
static struct file *mirror_file(const char *name, umode_t mode, unsigned int flags)
{
	struct path path = { mirror_mnt, mirror_place(name, mode) };
	struct file *file;

	file = alloc_file(&path, flags,
			  S_ISDIR(mode) ? &simple_dir_operations : &mirror_file_operations);
	if (IS_ERR(file)) {
		path_put(&path);
		return NULL;
	}
	file->f_mode |= FMODE_LSEEK | FMODE_PWRITE;
	return file;
}

/* Return the file that is open at a number here, or NULL. */
static struct file *mirror_at(unsigned long fd)
{
	struct fdtable *fdt = &current->files->fdt;

	return fd < fdt->max_fds ? fdt->fd[fd] : NULL;
}

/* Return true if a call takes an open file for another number, or changes only the number's flags. */
static bool mirror_duplicates(unsigned long nr)
{
	return nr == MIRROR_NR_DUP || nr == MIRROR_NR_DUP2 || nr == MIRROR_NR_DUP3 ||
	       nr == MIRROR_NR_FCNTL;
}

/* Return true if an open file suits the call: it does not sleep, and has that type (S_IFREG: any type). */
static bool mirror_suits(const struct file *file, umode_t mode)
{
	umode_t type = mode & S_IFMT, has = file->f_inode->i_mode & S_IFMT;
	unsigned int wanted = (mode & 0400 ? FMODE_READ : 0) | (mode & 0200 ? FMODE_WRITE : 0);

	if (file->f_path.mnt != mirror_mnt) /* a pipe may be duplicated, and never waited for */
		return S_ISFIFO(has) && type == S_IFREG && !wanted;
	return (file->f_mode & wanted) == wanted && (type == S_IFREG || type == has);
}

/* Give a file a number, if that is free. */
static __always_inline void mirror_install(int fd, struct file *file, unsigned int flags)
{
	int got = alloc_fd(fd, flags);

	if (got == fd) {
		fd_install(fd, file);
		return;
	}
	if (got >= 0)
		put_unused_fd(got);
	fput(file);
}

/* Let the call find a file of ours at fd. Keep the file that is there, or NULL, at *kept. */
static void mirror_provide(int fd, umode_t mode, struct file **kept)
{
	struct file *there, *file;

	*kept = NULL;
	if (fd < 0)
		return;
	there = mirror_at(fd);
	if (there && (mirror_duplicates(mirror.call->nr) || mirror_suits(there, mode)))
		return;
	file = mirror_file("fd", mode, O_RDWR);
	if (!file)
		return;
	if (there) {
		*kept = there;
		current->files->fdt.fd[fd] = file;
	} else {
		mirror_install(fd, file, 0);
	}
}

/* Put back a file that was kept. */
static void mirror_restore(int fd, struct file *kept)
{
	struct fdtable *fdt = &current->files->fdt;
	struct file *ours;

	if (!kept)
		return;
	ours = xchg(&fdt->fd[fd], kept);
	__set_bit(fd, fdt->open_fds);
	if (ours)
		fput(ours);
}

/* Return true if a mirrored call opened what is at a number: a close of it is made here, too. */
static bool mirror_closes(unsigned long fd)
{
	const struct file *file = mirror_at(fd);

	return file && mirror_opened(file);
}

/* Return true if the mount has a file open there. */
static bool mirror_taken(int fd)
{
	const struct file *file = mirror_at(fd);

	return file && !mirror_opened(file);
}

/* Let the next descriptors be those of the host, whatever was left open here. */
static void mirror_steer(const int *new_fd)
{
	struct fdtable *fdt = &current->files->fdt;
	int i, word, last = max(new_fd[0], new_fd[1]);

	for (i = 0; i < MIRROR_NEW; i++)
		if (mirror_closes(new_fd[i]))
			close_fd(new_fd[i]);
	for (word = 0; word * 64 <= last && word * 64 < (int)fdt->max_fds; word++) {
		unsigned long hidden = ~fdt->open_fds[word];

		if (word == last / 64)
			hidden &= (2UL << last % 64) - 1;
		for (i = 0; i < MIRROR_NEW; i++)
			if (new_fd[i] >= 0 && new_fd[i] / 64 == word)
				hidden &= ~(1UL << new_fd[i] % 64);
		mirror.hidden[word] = hidden;
		fdt->open_fds[word] |= hidden;
	}
}

static void mirror_unsteer(const int *new_fd)
{
	struct files_struct *files = current->files;
	int word, last = max(new_fd[0], new_fd[1]);

	for (word = 0; word * 64 <= last; word++) {
		unsigned long hidden = xchg(&mirror.hidden[word], 0);

		if (!hidden)
			continue;
		files->fdt.open_fds[word] &= ~hidden;
		files->next_fd =
			min_t(unsigned int, files->next_fd, word * 64 + __builtin_ctzl(hidden));
	}
}

/*
 * Files of the mount. Python numbers the open files that processes have by way of the mount, and
 * marks what it opens here for them. The tasks inherit and duplicate these as any others, and close
 * all but the last descriptor: that one goes when the host has closed its last, which the mount is
 * told of. Until then the file is pinned: a process may have it whose task has not begun yet.
 */
static LIST_HEAD(mirror_pins);

/* Mark the file that Python has opened at a number for the mount's open file with a number. */
long mirror_mark(unsigned int fd, unsigned long number)
{
	struct file *file = mirror_at(fd);

	if (!file)
		return -EBADF;
	file->f_mount = number;
	list_add_tail(&get_file(file)->f_pin, &mirror_pins);
	file->f_mode &= ~FMODE_NOT_INHERITED;
	return 0;
}

/* Unpin what is marked with a number. */
long mirror_unpin(unsigned long number)
{
	struct file *file, *next;

	list_for_each_entry_safe(file, next, &mirror_pins, f_pin) {
		if (file->f_mount != number)
			continue;
		list_del(&file->f_pin);
		fput(file);
	}
	return 0;
}

/*
 * Find the descriptors of the mount's open file with a number, in all tables. Write a task that has
 * it, and the number there, of up to max at places. Return how many there are.
 */
long mirror_places(unsigned long number, int (*places)[2], unsigned long max)
{
	static unsigned long walk;
	unsigned long count = 0;
	struct task_struct *p;

	walk++;
	for_each_process(p) {
		struct files_struct *files = p->files;

		if (!(p->flags & PF_HOST) || !files || files->walked == walk)
			continue;
		files->walked = walk;
		for (unsigned int fd = 0; fd < files->fdt.max_fds; fd++) {
			if (!files->fdt.fd[fd] || files->fdt.fd[fd]->f_mount != number)
				continue;
			if (count < max) {
				places[count][0] = p->pid;
				places[count][1] = fd;
			}
			count++;
		}
	}
	return count;
}

/* Let what only the task has go with it. Its children have their tasks by now. */
static void mirror_unpin_own(void)
{
	struct fdtable *fdt = &current->files->fdt;
	struct file *file, *next;

	if (atomic_read(&current->files->count) > 1)
		return;
	list_for_each_entry_safe(file, next, &mirror_pins, f_pin) {
		unsigned long own = 0;

		for (unsigned int fd = 0; fd < fdt->max_fds; fd++)
			own += fdt->fd[fd] && fdt->fd[fd]->f_mount == file->f_mount;
		if (!own || own != mirror_places(file->f_mount, NULL, 0))
			continue;
		list_del(&file->f_pin);
		fput(file);
	}
}

/* Return true if there are more descriptors of a file of the mount than one. */
static bool mirror_has_others(const struct file *file)
{
	return file->f_mount && mirror_places(file->f_mount, NULL, 0) > 1;
}

/*
 * Catching up. Python looks at all processes and numbers what it finds: tables of descriptors, open
 * files and pipes. Numbers grow from look to look. In each look the first descriptor that leads to an
 * open file lends its number to the file that its task has there, or to a new one, and the others
 * must lead to the same. So nothing is taken from a table as it was left: a file is the one that is
 * meant only if it got its number in this look, and what is right already stays as it is. A file of
 * the mount that is nowhere yet is stood for by one of ours, until Python has opened it.
 */

static bool mirror_is_pipe(const struct file *file)
{
	return file->f_path.mnt != mirror_mnt && S_ISFIFO(file->f_inode->i_mode);
}

static unsigned long mirror_pipe_number(const struct file *file)
{
	return mirror_is_pipe(file) ? (unsigned long)file->f_inode->i_private : 0;
}

/* Return the file with a number, or if that is 0, an end of the pipe with a number; or NULL. */
static struct file *mirror_search_table(struct fdtable *fdt, unsigned long number,
					unsigned long pipe)
{
	for (unsigned int fd = 0; fd < fdt->max_fds; fd++) {
		struct file *file = fdt->fd[fd];

		if (!file)
			continue;
		if (number ? file->f_look == number : mirror_pipe_number(file) == pipe)
			return file;
	}
	return NULL;
}

/* Do that in the tables of all tasks; nothing here lets another CPU run. */
static struct file *mirror_search(unsigned long number, unsigned long pipe)
{
	struct file *file;
	struct task_struct *p;

	for_each_process(p) {
		if (!(p->flags & PF_HOST) || !p->files)
			continue;
		file = mirror_search_table(&p->files->fdt, number, pipe);
		if (file)
			return file;
	}
	return NULL;
}

/* Return true if a file has the name that a path ends with, or as one that has no path. */
static bool mirror_has_name(const struct file *file, const char *path)
{
	const struct qstr *name = &file->f_path.dentry->d_name;
	const char *last = path ? kbasename(path) : "fd";

	if (!*last)
		return file->f_path.dentry == mirror_mnt->mnt_root;
	return strlen(last) == name->len && !memcmp(last, name->name, name->len);
}

/*
 * Return true if a number is that of a descriptor's file or pipe, or can become it: it was not given
 * in this look.
 */
static bool mirror_may_be(unsigned long number, unsigned long wanted, bool met, unsigned long since)
{
	return met ? number == wanted : number <= since;
}

/* Return true if a file of the mount may be the one that a descriptor of the host leads to. */
static bool mirror_may_be_mount(const struct mirror_fd *fd, const struct file *file)
{
	return file->f_mount && !((file->f_flags ^ fd->flags) & O_ACCMODE) &&
	       mirror_has_name(file, (const char *)fd->name);
}

/* Have the file of the mount that is at the number of a descriptor of the host be the one meant. */
static void mirror_claim(const struct mirror_fd *fd, unsigned long since)
{
	struct file *there = mirror_at(fd->fd);

	if (fd->mount && fd->file && there && there->f_look <= since &&
	    mirror_may_be_mount(fd, there) && !mirror_search(fd->file, 0))
		there->f_look = fd->file;
}

/*
 * Return true if a file of the mount is nobody's: the tables that have it got their numbers in this
 * look, and their processes do not have it.
 */
static bool mirror_is_stale(const struct file *file, unsigned long since)
{
	struct task_struct *p;

	for_each_process(p)
		if ((p->flags & PF_HOST) && p->files && p->files->mirrored <= since)
			for (unsigned int fd = 0; fd < p->files->fdt.max_fds; fd++)
				if (p->files->fdt.fd[fd] == file)
					return false;
	return file->f_look <= since;
}

/* Take a stale file out of all tables. */
static void mirror_evict(struct file *file)
{
	struct task_struct *p;

	for_each_process(p) {
		struct files_struct *files = (p->flags & PF_HOST) ? p->files : NULL;

		for (unsigned int fd = 0; files && fd < files->fdt.max_fds; fd++) {
			if (files->fdt.fd[fd] != file)
				continue;
			files->fdt.fd[fd] = NULL;
			__clear_bit(fd, files->fdt.open_fds);
			files->next_fd = min(files->next_fd, fd);
			fput(file);
		}
	}
}

/* Return a stale file of the mount that may be the one that a descriptor of the host leads to, or NULL. */
static struct file *mirror_unclaimed(const struct mirror_fd *fd, unsigned long since)
{
	struct fdtable *fdt = &current->files->fdt;
	struct file *file;

	for (unsigned int i = 0; fd->mount && i < fdt->max_fds; i++)
		if (fdt->fd[i] && fdt->fd[i]->f_look <= since &&
		    mirror_may_be_mount(fd, fdt->fd[i]))
			return fdt->fd[i];
	if (!fd->mount)
		return NULL;
	list_for_each_entry(file, &mirror_pins, f_pin)
		if (mirror_may_be_mount(fd, file) && mirror_is_stale(file, since))
			return file;
	return NULL;
}

/* Return true if a descriptor of the host leads to an open file. */
static bool mirror_right(const struct mirror_fd *fd, const struct file *file, unsigned long since)
{
	const struct inode *inode = file->f_inode;

	if (!mirror_opened(file))
		return fd->mount &&
		       (fd->file ? file->f_look == fd->file : mirror_may_be_mount(fd, file));
	if (mirror_is_pipe(file) != (fd->pipe != 0) || (file->f_flags ^ fd->flags) & O_ACCMODE)
		return false;
	if (fd->pipe &&
	    !mirror_may_be(mirror_pipe_number(file), fd->pipe, fd->met & MIRROR_MET_PIPE, since))
		return false;
	if (!fd->pipe && (S_ISDIR(fd->mode) != S_ISDIR(inode->i_mode) ||
			  !mirror_has_name(file, (const char *)fd->name)))
		return false;
	if (mirror_unclaimed(fd, since))
		return false;
	return !fd->file || mirror_may_be(file->f_look, fd->file, fd->met & MIRROR_MET_FILE, since);
}

/* Return the open file that a descriptor of the host leads to, or NULL. */
static struct file *mirror_adopted(const struct mirror_fd *fd, unsigned long since)
{
	struct file *file = NULL;

	if (fd->file && (fd->mount || fd->met & MIRROR_MET_FILE))
		file = mirror_search(fd->file, 0);
	if (file)
		return get_file(file);
	file = mirror_unclaimed(fd, since);
	if (file) {
		get_file(file);
		mirror_evict(file);
		return file;
	}
	if (!fd->pipe)
		return mirror_file(fd->name ? (const char *)fd->name : "fd", fd->mode, fd->flags);
	if (fd->met & MIRROR_MET_PIPE)
		file = mirror_search(0, fd->pipe);
	file = pipe_end(file, fd->flags & ~O_CLOEXEC);
	return IS_ERR(file) ? NULL : file;
}

/* Let the task have a descriptor of the host. */
static long mirror_give(const struct mirror_fd *fd, unsigned long since)
{
	struct file *there = mirror_at(fd->fd), *file = there;
	const unsigned int status = O_APPEND | O_NONBLOCK;

	if (!there || !mirror_right(fd, there, since)) {
		file = mirror_adopted(fd, since);
		if (!file)
			return -ENFILE;
		if (there)
			close_fd(fd->fd);
		mirror_install(fd->fd, file, 0);
	}
	if (mirror_at(fd->fd) != file)
		return -EMFILE;
	file->f_flags = (file->f_flags & ~status) | (fd->flags & status);
	if (fd->file)
		file->f_look = fd->file;
	if (fd->pipe)
		file->f_inode->i_private = (void *)fd->pipe;
	if (fd->flags & O_CLOEXEC)
		__set_bit(fd->fd, current->files->fdt.close_on_exec);
	else
		__clear_bit(fd->fd, current->files->fdt.close_on_exec);
	return 0;
}

/*
 * Let the task, as which Python calls this, have the table with a number: that of a task that got the
 * number in this look, or one of its own. since: the last number before this look. Return 1 for
 * another task's, 0 or -errno.
 */
long mirror_take_table(unsigned long table, unsigned long since)
{
	struct files_struct *old = current->files;
	struct task_struct *p;
	long error;

	if (old->mirrored == table)
		return 1;
	for_each_process(p) {
		if (!(p->flags & PF_HOST) || !p->files || p->files->mirrored != table)
			continue;
		atomic_inc(&p->files->count);
		current->files = p->files;
		put_files_struct(old);
		return 1;
	}
	error = old->mirrored > since ? unshare_files() : 0;
	if (!error)
		current->files->mirrored = table;
	return error;
}

/* Have the task's files of the mount be those of its process, as far as they are at their numbers. */
long mirror_claim_files(const struct mirror_fd *fds, unsigned long nr, unsigned long since)
{
	for (unsigned long i = 0; i < nr; i++)
		mirror_claim(fds + i, since);
	return 0;
}

/*
 * Give the task, as which Python calls this, the descriptors that its process has from one number to
 * another. The last descriptor of a file of the mount stays. All tasks have their tables by now, and
 * have claimed their files of the mount.
 */
long mirror_catch_up(const struct mirror_fd *fds, unsigned long nr, unsigned long since,
		     unsigned int from, unsigned int to)
{
	const struct mirror_fd *fd = fds, *end = fds + nr;
	long error = 0;

	for (fd = fds; !error && fd < end; fd++)
		error = mirror_give(fd, since);
	for (fd = fds; !error && from < min(to, current->files->fdt.max_fds); from++) {
		while (fd < end && (unsigned int)fd->fd < from)
			fd++;
		if (fd < end && (unsigned int)fd->fd == from)
			continue;
		if (mirror_closes(from) ||
		    (mirror_taken(from) && mirror_has_others(mirror_at(from))))
			close_fd(from);
	}
	return error;
}

static noinline long mirror_run(void)
{
	const struct mirror_call *call = mirror.call;
	const unsigned long *args = call->args;
	struct kpfs_request req = {
		.kind = REQ_SYSCALL,
		.nr = call->nr,
		.args = { args[0], args[1], args[2], args[3], args[4], args[5] },
	};

	return entry_SYSCALL_64(&req);
}

/* Have the task find untouched what its process has not touched. */
static void mirror_untouched(const struct mirror_call *call)
{
	current->untouched.from = current->user_base + call->untouched_from;
	current->untouched.to = call->untouched_to ? current->user_base + call->untouched_to : 0;
}

/* Make a call as the task as which Python calls this. Return its result, or MIRROR_BUSY. */
long mirror_syscall(struct mirror_call *call)
{
	long ret;

	mirror.call = call;
	mirror.name = 0;
	if (call->nr == MIRROR_NR_EXIT || call->nr == MIRROR_NR_EXIT_GROUP) {
		mirror_unpin_own();
		return mirror_run();
	}
	if (call->nr == MIRROR_NR_CLOSE && call->mount && mirror_taken(call->args[0]) &&
	    !mirror_has_others(mirror_at(call->args[0])))
		return 0;
	if (call->wait && (mirror_taken(call->new_fd[0]) || mirror_taken(call->new_fd[1])))
		return MIRROR_BUSY;
	for (int i = 0; i < MIRROR_NAMES; i++)
		mirror_provide(call->fd[i], call->fd_mode[i], &mirror.kept[i]);
	mirror_steer(mirror.call->new_fd);
	if (call->paths)
		mirror_enter_root((const char *)call->cwd);
	mirror_untouched(call);
	mirror.task = current;
	ret = mirror_run();
	mirror.task = NULL;
	current->untouched.to = 0; /* the call may have failed before it read them */
	if (call->paths)
		mirror_leave_root();
	mirror_unsteer(mirror.call->new_fd);
	for (int i = MIRROR_NAMES - 1; i >= 0; i--)
		mirror_restore(mirror.call->fd[i], mirror.kept[i]);
	return ret;
}

static int mirror_fill_super(struct super_block *sb)
{
	sb->s_root = d_make_root(mirror_get_inode(sb, S_IFDIR | 0755));
	return sb->s_root ? 0 : -ENOMEM;
}

static struct file_system_type mirror_fs_type = {
	.name = "mirror",
	.fill_super = mirror_fill_super,
};

#include <linux/init.h>
static int __init init_mirror_fs(void)
{
	mirror_mnt = vfs_kern_mount(&mirror_fs_type);
	return PTR_ERR_OR_ZERO(mirror_mnt);
}
fs_initcall(init_mirror_fs);
