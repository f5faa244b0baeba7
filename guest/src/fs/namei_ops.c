// SPDX-License-Identifier: GPL-2.0-or-later
/* Making, removing and renaming directory entries. */
#include <linux/namei.h>
#include <linux/syscalls.h>

noinline int may_create(struct inode *dir, struct dentry *child)
{
	return child->d_inode ? -EEXIST : inode_permission(dir, MAY_WRITE | MAY_EXEC);
}

noinline int may_delete(struct inode *dir, struct dentry *victim, bool isdir)
{
	int error;

	if (d_is_negative(victim))
		return -ENOENT;
	error = inode_permission(dir, MAY_WRITE | MAY_EXEC);
	if (error)
		return error;
	if (isdir != d_is_dir(victim))
		return isdir ? -ENOTDIR : -EISDIR;
	return victim->d_mounted ? -EBUSY : 0;
}

int vfs_create(struct inode *dir, struct dentry *dentry, umode_t mode, bool want_excl)
{
	int error = may_create(dir, dentry);

	if (error)
		return error;
	if (!dir->i_op->create)
		return -EACCES;
	return not_tail(dir->i_op->create(dir, dentry, (mode & S_IALLUGO) | S_IFREG, want_excl));
}

noinline int vfs_mkdir(struct inode *dir, struct dentry *dentry, umode_t mode)
{
	int error = may_create(dir, dentry);

	if (error)
		return error;
	if (!dir->i_op->mkdir)
		return -EPERM;
	return not_tail(dir->i_op->mkdir(dir, dentry, mode & 01777));
}

noinline int vfs_symlink(struct inode *dir, struct dentry *dentry, const char *oldname)
{
	int error = may_create(dir, dentry);

	if (error)
		return error;
	if (!dir->i_op->symlink)
		return -EPERM;
	return not_tail(dir->i_op->symlink(dir, dentry, oldname));
}

noinline int vfs_link(struct dentry *old_dentry, struct inode *dir, struct dentry *new_dentry)
{
	int error = may_create(dir, new_dentry);

	if (error)
		return error;
	if (!dir->i_op->link || d_is_dir(old_dentry))
		return -EPERM;
	return not_tail(dir->i_op->link(old_dentry, dir, new_dentry));
}

noinline int vfs_unlink(struct inode *dir, struct dentry *dentry)
{
	int error = may_delete(dir, dentry, false);

	if (error)
		return error;
	if (!dir->i_op->unlink)
		return -EPERM;
	error = dir->i_op->unlink(dir, dentry);
	if (!error)
		d_delete(dentry);
	return error;
}

noinline int vfs_rmdir(struct inode *dir, struct dentry *dentry)
{
	int error = may_delete(dir, dentry, true);

	if (error)
		return error;
	if (!dir->i_op->rmdir)
		return -EPERM;
	error = dir->i_op->rmdir(dir, dentry);
	if (!error)
		d_delete(dentry);
	return error;
}

int vfs_rename(struct inode *old_dir, struct dentry *old_dentry, struct inode *new_dir,
	       struct dentry *new_dentry)
{
	bool is_dir = d_is_dir(old_dentry);
	int error;

	if (d_inode(old_dentry) == d_inode(new_dentry))
		return 0;
	error = may_delete(old_dir, old_dentry, is_dir);
	if (error)
		return error;
	error = d_is_negative(new_dentry) ? may_create(new_dir, new_dentry) :
					    may_delete(new_dir, new_dentry, is_dir);
	if (error)
		return error;
	if (!old_dir->i_op->rename)
		return -EPERM;
	error = old_dir->i_op->rename(old_dir, old_dentry, new_dir, new_dentry);
	if (!error)
		d_move(old_dentry, new_dentry);
	return error;
}

/* Lock the parent and return the entry, which must not be there yet. */
struct dentry *filename_create(int dfd, struct filename *name, struct path *path,
			       unsigned int flags)
{
	struct dentry *dentry;
	struct qstr last;
	int type, error = filename_parentat(dfd, name, path, &last, &type);

	if (error)
		return ERR_PTR(error);
	if (type != LAST_NORM) {
		path_put(path);
		return ERR_PTR(-EEXIST);
	}
	inode_lock(d_inode(path->dentry));
	dentry = __lookup_hash(&last, path->dentry, flags | LOOKUP_CREATE | LOOKUP_EXCL);
	if (!IS_ERR(dentry) && d_inode(dentry)) {
		dput(dentry);
		dentry = ERR_PTR(-EEXIST);
	}
	if (IS_ERR(dentry)) {
		inode_unlock(d_inode(path->dentry));
		path_put(path);
	}
	return dentry;
}

noinline void done_path_create(struct path *path, struct dentry *dentry)
{
	dput(dentry);
	inode_unlock(d_inode(path->dentry));
	path_put(path);
}

int do_mkdirat(int dfd, struct filename *name, umode_t mode)
{
	struct path path;
	struct dentry *dentry = filename_create(dfd, name, &path, LOOKUP_DIRECTORY);
	int error;

	putname(name);
	if (IS_ERR(dentry))
		return PTR_ERR(dentry);
	error = vfs_mkdir(d_inode(path.dentry), dentry, mode & ~current->fs->umask);
	done_path_create(&path, dentry);
	return error;
}

SYSCALL_DEFINE2(mkdir, const char __user *, pathname, umode_t, mode)
{
	return do_mkdirat(AT_FDCWD, getname(pathname), mode);
}

SYSCALL_DEFINE3(mkdirat, int, dfd, const char __user *, pathname, umode_t, mode)
{
	return do_mkdirat(dfd, getname(pathname), mode);
}

int do_symlinkat(struct filename *from, int newdfd, struct filename *to)
{
	struct dentry *dentry;
	struct path path;
	int error;

	if (IS_ERR(from)) {
		error = PTR_ERR(from);
		goto out;
	}
	dentry = filename_create(newdfd, to, &path, 0);
	error = PTR_ERR(dentry);
	if (IS_ERR(dentry))
		goto out;
	error = vfs_symlink(d_inode(path.dentry), dentry, from->name);
	done_path_create(&path, dentry);
out:
	putname(to);
	putname(from);
	return error;
}

SYSCALL_DEFINE2(symlink, const char __user *, oldname, const char __user *, newname)
{
	return do_symlinkat(getname(oldname), AT_FDCWD, getname(newname));
}

SYSCALL_DEFINE3(symlinkat, const char __user *, oldname, int, newdfd, const char __user *, newname)
{
	return do_symlinkat(getname(oldname), newdfd, getname(newname));
}

int do_linkat(int olddfd, struct filename *old, int newdfd, struct filename *new, int flags)
{
	struct path old_path, new_path;
	struct dentry *new_dentry;
	int error = -EINVAL;

	if (flags & ~(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH))
		goto out;
	error = filename_lookup(olddfd, old, flags & AT_SYMLINK_FOLLOW ? LOOKUP_FOLLOW : 0,
				&old_path);
	if (error)
		goto out;
	new_dentry = filename_create(newdfd, new, &new_path, 0);
	error = PTR_ERR(new_dentry);
	if (!IS_ERR(new_dentry)) {
		error = vfs_link(old_path.dentry, d_inode(new_path.dentry), new_dentry);
		done_path_create(&new_path, new_dentry);
	}
	path_put(&old_path);
out:
	putname(old);
	putname(new);
	return error;
}

SYSCALL_DEFINE2(link, const char __user *, oldname, const char __user *, newname)
{
	return do_linkat(AT_FDCWD, getname(oldname), AT_FDCWD, getname(newname), 0);
}

SYSCALL_DEFINE5(linkat, int, olddfd, const char __user *, oldname, int, newdfd, const char __user *,
		newname, int, flags)
{
	return do_linkat(olddfd, getname_flags(oldname, flags), newdfd, getname(newname), flags);
}

static noinline long do_remove(int dfd, struct filename *name, bool dir)
{
	struct dentry *dentry;
	struct path path;
	struct qstr last;
	int type, error = filename_parentat(dfd, name, &path, &last, &type);

	if (error)
		goto out;
	error = dir ? -EINVAL : -EISDIR;
	if (type != LAST_NORM)
		goto out_put;
	inode_lock(d_inode(path.dentry));
	dentry = __lookup_hash(&last, path.dentry, LOOKUP_EXCL);
	error = PTR_ERR(dentry);
	if (!IS_ERR(dentry)) {
		error = dir ? vfs_rmdir(d_inode(path.dentry), dentry) :
			      vfs_unlink(d_inode(path.dentry), dentry);
		dput(dentry);
	}
	inode_unlock(d_inode(path.dentry));
out_put:
	path_put(&path);
out:
	putname(name);
	return error;
}

noinline int do_rmdir(int dfd, struct filename *name)
{
	return do_remove(dfd, name, true);
}

noinline int do_unlinkat(int dfd, struct filename *name)
{
	return do_remove(dfd, name, false);
}

SYSCALL_DEFINE1(rmdir, const char __user *, pathname)
{
	return do_rmdir(AT_FDCWD, getname(pathname));
}

SYSCALL_DEFINE1(unlink, const char __user *, pathname)
{
	return do_unlinkat(AT_FDCWD, getname(pathname));
}

SYSCALL_DEFINE3(unlinkat, int, dfd, const char __user *, pathname, int, flag)
{
	if (flag & ~AT_REMOVEDIR)
		return -EINVAL;
	if (flag & AT_REMOVEDIR)
		return do_rmdir(dfd, getname(pathname));
	return do_unlinkat(dfd, getname(pathname));
}

static void lock_rename(struct dentry *p1, struct dentry *p2)
{
	if (p1 != p2 && p1 > p2)
		inode_lock(d_inode(p2));
	inode_lock(d_inode(p1));
	if (p1 != p2 && p1 < p2)
		inode_lock(d_inode(p2));
}

static void unlock_rename(struct dentry *p1, struct dentry *p2)
{
	inode_unlock(d_inode(p1));
	if (p1 != p2)
		inode_unlock(d_inode(p2));
}

static noinline int rename_locked(const struct path *old_path, const struct qstr *old_last,
				  const struct path *new_path, const struct qstr *new_last)
{
	struct dentry *old_dentry, *new_dentry;
	int error;

	old_dentry = __lookup_hash(old_last, old_path->dentry, LOOKUP_EXCL);
	if (IS_ERR(old_dentry))
		return PTR_ERR(old_dentry);
	new_dentry = __lookup_hash(new_last, new_path->dentry, LOOKUP_EXCL);
	error = PTR_ERR(new_dentry);
	if (!IS_ERR(new_dentry)) {
		error = -ENOENT;
		if (d_inode(old_dentry))
			error = vfs_rename(d_inode(old_path->dentry), old_dentry,
					   d_inode(new_path->dentry), new_dentry);
		dput(new_dentry);
	}
	dput(old_dentry);
	return error;
}

int do_renameat2(int olddfd, struct filename *from, int newdfd, struct filename *to,
		 unsigned int flags)
{
	struct path old_path, new_path;
	struct qstr old_last, new_last;
	int old_type, new_type, error;

	error = filename_parentat(olddfd, from, &old_path, &old_last, &old_type);
	if (error)
		goto put_names;
	error = filename_parentat(newdfd, to, &new_path, &new_last, &new_type);
	if (error)
		goto put_old;
	error = old_path.mnt != new_path.mnt ? -EXDEV : -EBUSY;
	if (old_path.mnt == new_path.mnt && old_type == LAST_NORM && new_type == LAST_NORM) {
		lock_rename(old_path.dentry, new_path.dentry);
		error = rename_locked(&old_path, &old_last, &new_path, &new_last);
		unlock_rename(old_path.dentry, new_path.dentry);
	}
	path_put(&new_path);
put_old:
	path_put(&old_path);
put_names:
	putname(from);
	putname(to);
	return error;
}

SYSCALL_DEFINE2(rename, const char __user *, oldname, const char __user *, newname)
{
	return do_renameat2(AT_FDCWD, getname(oldname), AT_FDCWD, getname(newname), 0);
}

SYSCALL_DEFINE4(renameat, int, olddfd, const char __user *, oldname, int, newdfd,
		const char __user *, newname)
{
	return do_renameat2(olddfd, getname(oldname), newdfd, getname(newname), 0);
}

SYSCALL_DEFINE5(renameat2, int, olddfd, const char __user *, oldname, int, newdfd,
		const char __user *, newname, unsigned int, flags)
{
	return flags ? -EINVAL :
		       do_renameat2(olddfd, getname(oldname), newdfd, getname(newname), 0);
}
