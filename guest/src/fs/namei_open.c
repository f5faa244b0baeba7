// SPDX-License-Identifier: GPL-2.0-or-later
/* The last step of opening a path. */
#include <linux/namei.h>

static int acc_mode_of(int open_flag)
{
	static const u8 acc[] = { MAY_READ, MAY_WRITE, MAY_READ | MAY_WRITE, MAY_READ | MAY_WRITE };

	return acc[open_flag & O_ACCMODE];
}

static noinline int may_open(const struct path *path, int acc_mode, int flag)
{
	struct inode *inode = d_inode(path->dentry);

	if (!inode)
		return -ENOENT;
	switch (inode->i_mode & S_IFMT) {
	case S_IFLNK: return -ELOOP;
	case S_IFDIR:
		if (acc_mode & MAY_WRITE)
			return -EISDIR;
		break;
	case S_IFREG:
	case S_IFCHR:
	case S_IFIFO: break;
	default:      return -ENXIO;
	}
	return inode_permission(inode, acc_mode);
}

static noinline int handle_truncate(struct file *filp)
{
	return do_truncate(filp->f_path.dentry, 0, 0, filp);
}

/* Find, or create, the last component of a path that is opened. */
static noinline struct dentry *lookup_open(struct nameidata *nd, struct file *file,
					   const struct open_flags *op, bool *created)
{
	struct dentry *dir = nd->path.dentry, *dentry;
	struct inode *dir_inode = d_inode(dir);
	int error;

	dentry = d_lookup(dir, &nd->last);
	if (!dentry)
		dentry = __lookup_slow(&nd->last, dir,
				       nd->flags | LOOKUP_OPEN |
					       (op->open_flag & O_CREAT ? LOOKUP_CREATE : 0));
	if (IS_ERR(dentry) || dentry->d_inode || !(op->open_flag & O_CREAT))
		return dentry;
	error = dir_inode->i_op->create ? inode_permission(dir_inode, MAY_WRITE | MAY_EXEC) :
					  -EACCES;
	if (!error)
		error = vfs_create(dir_inode, dentry, op->mode & ~current->fs->umask,
				   op->open_flag & O_EXCL);
	if (error) {
		dput(dentry);
		return ERR_PTR(error);
	}
	*created = true;
	return dentry;
}

static noinline int open_last_lookups(struct nameidata *nd, struct file *file,
				      const struct open_flags *op, bool *created)
{
	struct dentry *dir = nd->path.dentry, *dentry;

	if (!nd->last.len)
		return 0;
	if (nd->last_type != LAST_NORM) {
		handle_dots(nd, nd->last_type);
		return 0;
	}
	if (!(op->open_flag & O_CREAT))
		return walk_component(nd, true);
	if (nd->flags & LOOKUP_DIRECTORY)
		return -EISDIR;
	inode_lock(d_inode(dir));
	dentry = lookup_open(nd, file, op, created);
	inode_unlock(d_inode(dir));
	return IS_ERR(dentry) ? PTR_ERR(dentry) : step_into(nd, dentry, true);
}

static noinline int do_open(struct nameidata *nd, struct file *file, const struct open_flags *op,
			    bool created)
{
	int error = complete_walk(nd);

	if (error)
		return error;
	if ((op->open_flag & O_CREAT) && !created) {
		if (op->open_flag & O_EXCL)
			return -EEXIST;
		if (d_is_dir(nd->path.dentry))
			return -EISDIR;
	}
	error = created ? 0 : may_open(&nd->path, op->acc_mode, op->open_flag);
	if (!error)
		error = vfs_open(&nd->path, file);
	if (!error && (op->open_flag & O_TRUNC) && S_ISREG(file->f_inode->i_mode))
		error = handle_truncate(file);
	return error;
}

static noinline struct file *path_openat(struct nameidata *nd, const struct open_flags *op,
					 unsigned int flags)
{
	struct file *file = alloc_empty_file(op->open_flag);
	bool created = false;
	int error;

	if (IS_ERR(file))
		return file;
	error = path_init(nd, flags);
	if (error) {
		fput(file);
		return ERR_PTR(error);
	}
	error = link_path_walk(nd->name->name, nd);
	if (!error)
		error = open_last_lookups(nd, file, op, &created);
	if (!error)
		error = do_open(nd, file, op, created);
	terminate_walk(nd);
	if (!error)
		return file;
	fput(file);
	return ERR_PTR(error);
}

struct file *do_filp_open(int dfd, struct filename *pathname, const struct open_flags *op)
{
	struct nameidata nd;

	set_nameidata(&nd, dfd, pathname);
	return not_tail(path_openat(&nd, op, op->lookup_flags));
}

int build_acc_mode(int flags)
{
	return acc_mode_of(flags) | (flags & O_TRUNC ? MAY_WRITE : 0) | MAY_OPEN;
}
