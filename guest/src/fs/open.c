// SPDX-License-Identifier: GPL-2.0-or-later
/* Opening, closing and changing files. */
/* Whole prologues: room for an optimised probe behind the entry nop. */
#pragma GCC optimize("no-shrink-wrap")
#include <linux/fdtable.h>
#include <linux/fs.h>
#include <linux/host.h>
#include <linux/security.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>

int build_acc_mode(int flags);

static noinline int do_dentry_open(struct file *f, struct inode *inode)
{
	int error = 0;

	path_get(&f->f_path);
	f->f_inode = inode;
	f->f_mapping = inode->i_mapping;
	f->f_op = inode->i_fop;
	if (!f->f_op) {
		error = -ENODEV;
		goto cleanup;
	}
	error = security_file_open(f);
	if (error)
		goto cleanup;
	f->f_mode |= FMODE_LSEEK | FMODE_PWRITE | FMODE_OPENED;
	if (f->f_op->llseek == no_llseek)
		f->f_mode &= ~(FMODE_LSEEK | FMODE_PWRITE);
	if (f->f_op->open)
		error = f->f_op->open(inode, f);
	if (!error) {
		f->f_flags &= ~(O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC);
		return f->f_flags & O_DIRECT && !(f->f_mode & FMODE_CAN_ODIRECT) ? -EINVAL : 0;
	}
cleanup:
	f->f_mode &= ~FMODE_OPENED;
	path_put(&f->f_path);
	f->f_path.dentry = NULL;
	return error;
}

int vfs_open(const struct path *path, struct file *file)
{
	file->f_path = *path;
	return not_tail(do_dentry_open(file, d_inode(path->dentry)));
}

static noinline struct open_how build_open_how(int flags, umode_t mode)
{
	struct open_how how = { .flags = flags & 07777777, .mode = mode & S_IALLUGO };

	if (!(how.flags & O_CREAT))
		how.mode = 0;
	return how;
}

static noinline int build_open_flags(const struct open_how *how, struct open_flags *op)
{
	int flags = how->flags;

	if (how->mode && !(flags & O_CREAT))
		return -EINVAL;
	op->open_flag = flags;
	op->mode = how->mode | S_IFREG;
	op->acc_mode = build_acc_mode(flags);
	op->lookup_flags = flags & O_NOFOLLOW ? 0 : LOOKUP_FOLLOW;
	if (flags & O_DIRECTORY)
		op->lookup_flags |= LOOKUP_DIRECTORY;
	if (flags & O_EXCL && flags & O_CREAT)
		op->lookup_flags &= ~LOOKUP_FOLLOW;
	return 0;
}

noinline struct file *file_open_name(struct filename *name, int flags, umode_t mode)
{
	struct open_how how = build_open_how(flags, mode);
	struct open_flags op;
	int err = build_open_flags(&how, &op);

	return err ? ERR_PTR(err) : do_filp_open(AT_FDCWD, name, &op);
}

struct file *filp_open(const char *filename, int flags, umode_t mode)
{
	struct filename *name = getname_kernel(filename);
	struct file *file;

	if (IS_ERR(name))
		return ERR_CAST(name);
	file = file_open_name(name, flags, mode);
	putname(name);
	return file;
}

long do_sys_openat2(int dfd, const char __user *filename, struct open_how *how)
{
	struct open_flags op;
	struct filename *tmp;
	int fd = build_open_flags(how, &op);

	if (fd)
		return fd;
	tmp = getname(filename);
	if (IS_ERR(tmp))
		return PTR_ERR(tmp);
	fd = get_unused_fd_flags(how->flags);
	if (fd >= 0) {
		struct file *f = do_filp_open(dfd, tmp, &op);

		if (IS_ERR(f)) {
			put_unused_fd(fd);
			fd = PTR_ERR(f);
		} else {
			fd_install(fd, f);
		}
	}
	putname(tmp);
	return fd;
}

/* The body of do_sys_open(), which Linux inlines wherever it calls it. */
static __always_inline long sys_open_flags(int dfd, const char __user *filename, int flags,
					   umode_t mode)
{
	struct open_how how = build_open_how(flags, mode);

	return do_sys_openat2(dfd, filename, &how);
}

long do_sys_open(int dfd, const char __user *filename, int flags, umode_t mode)
{
	return sys_open_flags(dfd, filename, flags, mode);
}

/*
 * open(2) as it was called until 4.16. Today's programs say openat() without a directory where
 * those of that time said open(), so they come here too.
 */
noinline __legacy long sys_open(const char __user *filename, int flags, umode_t mode)
{
	return not_tail(sys_open_flags(AT_FDCWD, filename, flags, mode));
}

static __always_inline long open_at(int dfd, const char __user *filename, int flags, umode_t mode)
{
	if (dfd == AT_FDCWD && kpfs_configured(KPFS_CONFIG_LEGACY_SYMBOLS))
		return sys_open(filename, flags, mode);
	return sys_open_flags(dfd, filename, flags, mode);
}

SYSCALL_DEFINE3(open, const char __user *, filename, int, flags, umode_t, mode)
{
	return open_at(AT_FDCWD, filename, flags, mode);
}

SYSCALL_DEFINE4(openat, int, dfd, const char __user *, filename, int, flags, umode_t, mode)
{
	return open_at(dfd, filename, flags, mode);
}

SYSCALL_DEFINE4(openat2, int, dfd, const char __user *, filename, struct open_how __user *, how,
		size_t, usize)
{
	struct open_how tmp;

	if (usize != sizeof(tmp))
		return -EINVAL;
	if (copy_from_user(&tmp, how, sizeof(tmp)))
		return -EFAULT;
	return do_sys_openat2(dfd, filename, &tmp);
}

SYSCALL_DEFINE2(creat, const char __user *, pathname, umode_t, mode)
{
	return open_at(AT_FDCWD, pathname, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

int filp_close(struct file *filp, void *id)
{
	int retval = 0;

	if (filp->f_op->flush)
		retval = filp->f_op->flush(filp);
	fput(filp);
	return retval;
}

int notify_change(struct dentry *dentry, struct iattr *attr)
{
	struct inode *inode = d_inode(dentry);

	if (!inode->i_op || !inode->i_op->setattr)
		return -EPERM;
	if ((attr->ia_valid & (ATTR_MODE | ATTR_UID | ATTR_GID)) && current->cred->fsuid.val &&
	    current->cred->fsuid.val != inode->i_uid.val)
		return -EPERM;
	return not_tail(inode->i_op->setattr(dentry, attr));
}

noinline int do_truncate(struct dentry *dentry, loff_t length, unsigned int time_attrs,
			 struct file *filp)
{
	struct iattr newattrs = { .ia_size = length, .ia_valid = ATTR_SIZE | time_attrs };

	if (length < 0)
		return -EINVAL;
	guard(inode)(d_inode(dentry));
	return notify_change(dentry, &newattrs);
}

noinline long vfs_truncate(const struct path *path, loff_t length)
{
	struct inode *inode = d_inode(path->dentry);

	if (S_ISDIR(inode->i_mode))
		return -EISDIR;
	if (!S_ISREG(inode->i_mode))
		return -EINVAL;
	return inode_permission(inode, MAY_WRITE) ?: do_truncate(path->dentry, length, 0, NULL);
}

noinline long do_sys_truncate(const char __user *pathname, loff_t length)
{
	struct path path;
	int error;

	if (length < 0)
		return -EINVAL;
	error = user_path_at_empty(AT_FDCWD, pathname, LOOKUP_FOLLOW, &path);
	if (error)
		return error;
	guard(path)(&path);
	return vfs_truncate(&path, length);
}

SYSCALL_DEFINE2(truncate, const char __user *, path, long, length)
{
	return do_sys_truncate(path, length);
}

long do_sys_ftruncate(unsigned int fd, loff_t length)
{
	struct file *file __free(fput) = fget(fd);

	if (!file)
		return -EBADF;
	if (length < 0 || !S_ISREG(file->f_inode->i_mode) || !(file->f_mode & FMODE_WRITE))
		return -EINVAL;
	return do_truncate(file->f_path.dentry, length, 0, file);
}

SYSCALL_DEFINE2(ftruncate, unsigned int, fd, unsigned long, length)
{
	return do_sys_ftruncate(fd, length);
}

static noinline int chmod_common(const struct path *path, umode_t mode)
{
	struct inode *inode = d_inode(path->dentry);
	struct iattr newattrs = {
		.ia_mode = (mode & S_IALLUGO) | (inode->i_mode & ~S_IALLUGO),
		.ia_valid = ATTR_MODE,
	};

	guard(inode)(inode);
	return notify_change(path->dentry, &newattrs);
}

static noinline int do_fchmodat(int dfd, const char __user *filename, umode_t mode)
{
	struct path path;
	int error = user_path_at_empty(dfd, filename, LOOKUP_FOLLOW, &path);

	if (error)
		return error;
	guard(path)(&path);
	return chmod_common(&path, mode);
}

static noinline int vfs_fchmod(struct file *file, umode_t mode)
{
	return chmod_common(&file->f_path, mode);
}

SYSCALL_DEFINE2(fchmod, unsigned int, fd, umode_t, mode)
{
	struct file *file __free(fput) = fget(fd);

	return file ? vfs_fchmod(file, mode) : -EBADF;
}

SYSCALL_DEFINE2(chmod, const char __user *, filename, umode_t, mode)
{
	return do_fchmodat(AT_FDCWD, filename, mode);
}

SYSCALL_DEFINE3(fchmodat, int, dfd, const char __user *, filename, umode_t, mode)
{
	return do_fchmodat(dfd, filename, mode);
}

static noinline int chown_common(const struct path *path, uid_t user, gid_t group)
{
	struct iattr newattrs = { .ia_uid = { user }, .ia_gid = { group } };

	if (user != ~0u)
		newattrs.ia_valid |= ATTR_UID;
	if (group != ~0u)
		newattrs.ia_valid |= ATTR_GID;
	guard(inode)(d_inode(path->dentry));
	return notify_change(path->dentry, &newattrs);
}

noinline int do_fchownat(int dfd, const char __user *filename, uid_t user, gid_t group, int flag)
{
	struct path path;
	int error;

	if (flag & ~(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	error = user_path_at_empty(dfd, filename, at_lookup_flags(flag), &path);
	if (error)
		return error;
	guard(path)(&path);
	return chown_common(&path, user, group);
}

SYSCALL_DEFINE5(fchownat, int, dfd, const char __user *, filename, uid_t, user, gid_t, group, int,
		flag)
{
	return do_fchownat(dfd, filename, user, group, flag);
}

SYSCALL_DEFINE3(chown, const char __user *, filename, uid_t, user, gid_t, group)
{
	return do_fchownat(AT_FDCWD, filename, user, group, 0);
}

SYSCALL_DEFINE3(lchown, const char __user *, filename, uid_t, user, gid_t, group)
{
	return do_fchownat(AT_FDCWD, filename, user, group, AT_SYMLINK_NOFOLLOW);
}

static noinline int vfs_fchown(struct file *file, uid_t user, gid_t group)
{
	return chown_common(&file->f_path, user, group);
}

noinline int ksys_fchown(unsigned int fd, uid_t user, gid_t group)
{
	struct file *file __free(fput) = fget(fd);

	return file ? vfs_fchown(file, user, group) : -EBADF;
}

SYSCALL_DEFINE3(fchown, unsigned int, fd, uid_t, user, gid_t, group)
{
	return ksys_fchown(fd, user, group);
}

noinline long do_faccessat(int dfd, const char __user *filename, int mode, int flags)
{
	struct path path;
	int res;

	if (mode & ~7 || flags & ~(AT_EACCESS | AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	res = user_path_at_empty(dfd, filename, at_lookup_flags(flags), &path);
	if (res)
		return res;
	guard(path)(&path);
	return inode_permission(d_inode(path.dentry), mode);
}

SYSCALL_DEFINE2(access, const char __user *, filename, int, mode)
{
	return do_faccessat(AT_FDCWD, filename, mode, 0);
}

SYSCALL_DEFINE3(faccessat, int, dfd, const char __user *, filename, int, mode)
{
	return do_faccessat(dfd, filename, mode, 0);
}

SYSCALL_DEFINE4(faccessat2, int, dfd, const char __user *, filename, int, mode, int, flags)
{
	return do_faccessat(dfd, filename, mode, flags);
}
