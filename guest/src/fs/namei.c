// SPDX-License-Identifier: GPL-2.0-or-later
/* From a path to a directory entry. */
#include <kpfs/hypercall.h>
#include <linux/fdtable.h>
#include <linux/mm.h>
#include <linux/namei.h>
#include <linux/string.h>
#include <linux/uaccess.h>

static noinline struct filename *getname_alloc(size_t len)
{
	struct filename *result = kmalloc(sizeof(*result) + len + 1, GFP_KERNEL);

	if (!result)
		return NULL;
	result->refcnt = 1;
	result->name = result->iname;
	return result;
}

noinline struct filename *getname_flags(const char __user *filename, int flags)
{
	long len = strnlen_user(filename, PATH_MAX);
	struct filename *result;

	if (!len)
		return ERR_PTR(-EFAULT);
	if (len > PATH_MAX)
		return ERR_PTR(-ENAMETOOLONG);
	if (len == 1 && !(flags & AT_EMPTY_PATH))
		return ERR_PTR(-ENOENT);
	result = getname_alloc(len);
	if (!result)
		return ERR_PTR(-ENOMEM);
	len = strncpy_from_user(result->iname, filename, len);
	if (len < 0) {
		putname(result);
		return ERR_PTR(len);
	}
	result->iname[len] = 0;
	return result;
}

struct filename *getname(const char __user *filename)
{
	return getname_flags(filename, 0);
}

noinline struct filename *getname_kernel(const char *filename)
{
	struct filename *result = getname_alloc(strlen(filename));

	if (!result)
		return ERR_PTR(-ENOMEM);
	strcpy(result->iname, filename);
	return result;
}

noinline void putname(struct filename *name)
{
	if (IS_ERR_OR_NULL(name) || --name->refcnt > 0)
		return;
	kfree(name);
}

noinline void path_get(const struct path *path)
{
	dget(path->dentry);
}

noinline void path_put(const struct path *path)
{
	dput(path->dentry);
}

/* Check the permission bits that apply to the caller: owner, group or other. */
static noinline int acl_permission_check(struct inode *inode, int mask)
{
	const struct cred *cred = current->cred;
	unsigned int mode = inode->i_mode;

	if (cred->fsuid.val == inode->i_uid.val)
		mode >>= 6;
	else if (cred->fsgid.val == inode->i_gid.val)
		mode >>= 3;
	return mask & ~mode & (MAY_READ | MAY_WRITE | MAY_EXEC) ? -EACCES : 0;
}

noinline int generic_permission(struct inode *inode, int mask)
{
	int ret = acl_permission_check(inode, mask);

	if (ret != -EACCES || current->cred->fsuid.val)
		return ret;
	return S_ISDIR(inode->i_mode) || !(mask & MAY_EXEC) || (inode->i_mode & 0111) ? 0 : -EACCES;
}

static noinline int do_inode_permission(struct inode *inode, int mask)
{
	if (inode->i_op && inode->i_op->permission)
		return inode->i_op->permission(inode, mask);
	return generic_permission(inode, mask);
}

noinline int inode_permission(struct inode *inode, int mask)
{
	return not_tail(do_inode_permission(inode, mask));
}

static inline int may_lookup(struct nameidata *nd)
{
	return inode_permission(d_inode(nd->path.dentry), MAY_EXEC);
}

static noinline void set_root(struct nameidata *nd)
{
	nd->root = current->fs->root;
}

static noinline int nd_jump_root(struct nameidata *nd)
{
	if (!nd->root.dentry)
		set_root(nd);
	path_get(&nd->root);
	path_put(&nd->path);
	nd->path = nd->root;
	return 0;
}

noinline void terminate_walk(struct nameidata *nd)
{
	path_put(&nd->path);
	nd->path.dentry = NULL;
}

/* Go down into the file systems that are mounted here. */
static noinline void traverse_mounts(struct path *path)
{
	struct vfsmount *mnt;

	while ((mnt = lookup_mnt(path))) {
		dget(mnt->mnt_root);
		dput(path->dentry);
		path->mnt = mnt;
		path->dentry = mnt->mnt_root;
	}
}

static noinline bool choose_mountpoint(struct path *path)
{
	struct vfsmount *mnt = path->mnt;

	if (!mnt->mnt_parent)
		return false;
	dget(mnt->mnt_mountpoint);
	dput(path->dentry);
	path->dentry = mnt->mnt_mountpoint;
	path->mnt = mnt->mnt_parent;
	return true;
}

static noinline void follow_dotdot(struct nameidata *nd)
{
	struct dentry *parent;

	if (!nd->root.dentry)
		set_root(nd);
	while (nd->path.dentry == nd->path.mnt->mnt_root)
		if (!choose_mountpoint(&nd->path))
			return;
	parent = dget_parent(nd->path.dentry);
	dput(nd->path.dentry);
	nd->path.dentry = parent;
	traverse_mounts(&nd->path);
}

noinline const char *handle_dots(struct nameidata *nd, int type)
{
	if (type == LAST_DOTDOT)
		follow_dotdot(nd);
	return NULL;
}

static noinline struct dentry *lookup_fast(struct nameidata *nd)
{
	return d_lookup(nd->path.dentry, &nd->last);
}

static noinline struct dentry *lookup_real(struct inode *dir, struct dentry *dentry,
					   unsigned int flags)
{
	struct dentry *old;

	if (!dir->i_op || !dir->i_op->lookup) {
		dput(dentry);
		return ERR_PTR(-ENOTDIR);
	}
	old = dir->i_op->lookup(dir, dentry, flags);
	if (old) {
		dput(dentry);
		dentry = old;
	}
	return dentry;
}

noinline struct dentry *__lookup_slow(const struct qstr *name, struct dentry *dir,
				      unsigned int flags)
{
	struct dentry *dentry = d_alloc(dir, name);

	return dentry ? lookup_real(d_inode(dir), dentry, flags) : ERR_PTR(-ENOMEM);
}

static noinline struct dentry *lookup_slow(const struct qstr *name, struct dentry *dir,
					   unsigned int flags)
{
	guard(inode)(d_inode(dir));
	return d_lookup(dir, name) ?: __lookup_slow(name, dir, flags);
}

noinline struct dentry *__lookup_hash(const struct qstr *name, struct dentry *base,
				      unsigned int flags)
{
	return d_lookup(base, name) ?: __lookup_slow(name, base, flags);
}

static noinline const char *get_link(struct nameidata *nd, struct dentry *dentry)
{
	struct inode *inode = d_inode(dentry);

	if (nd->total_link_count++ >= MAXSYMLINKS || nd->depth >= MAX_NESTED_LINKS)
		return ERR_PTR(-ELOOP);
	touch_atime(&nd->path);
	return inode->i_link ? inode->i_link : inode->i_op->get_link(dentry, inode);
}

/* Walk the text of a symbolic link from here, or from the root. Recursive. */
static noinline int pick_link(struct nameidata *nd, struct dentry *link, bool trailing)
{
	const char *s = get_link(nd, link);
	int err;

	if (IS_ERR(s)) {
		dput(link);
		return PTR_ERR(s);
	}
	nd->depth++;
	if (*s == '/')
		nd_jump_root(nd);
	err = link_path_walk(s, nd);
	if (!err && nd->last.len)
		err = walk_component(nd, trailing);
	nd->depth--;
	dput(link);
	return err;
}

int step_into(struct nameidata *nd, struct dentry *dentry, bool trailing)
{
	struct path path = { nd->path.mnt, dentry };

	traverse_mounts(&path);
	if (d_is_negative(path.dentry)) {
		dput(path.dentry);
		return -ENOENT;
	}
	if (S_ISLNK(d_inode(path.dentry)->i_mode) && !(trailing && !(nd->flags & LOOKUP_FOLLOW)))
		return pick_link(nd, path.dentry, trailing);
	dput(nd->path.dentry);
	nd->path = path;
	return 0;
}

int walk_component(struct nameidata *nd, bool trailing)
{
	unsigned int flags = nd->flags;
	struct dentry *dentry;

	if (nd->last_type != LAST_NORM) {
		handle_dots(nd, nd->last_type);
		return 0;
	}
	if (!trailing)
		flags |= LOOKUP_DIRECTORY;
	dentry = lookup_fast(nd);
	if (!dentry)
		dentry = lookup_slow(&nd->last, nd->path.dentry, flags);
	return IS_ERR(dentry) ? PTR_ERR(dentry) : step_into(nd, dentry, trailing);
}

static noinline unsigned int hash_name(const void *salt, const char *name, struct qstr *qname)
{
	unsigned int len = strcspn(name, "/");

	qname->name = name;
	qname->len = len;
	qname->hash = full_name_hash(NULL, name, len);
	return len;
}

static noinline int name_type(const struct qstr *name)
{
	if (name->name[0] != '.')
		return LAST_NORM;
	if (name->len == 1)
		return LAST_DOT;
	return name->len == 2 && name->name[1] == '.' ? LAST_DOTDOT : LAST_NORM;
}

/* Walk all components but the last, which is left in nd->last. */
int link_path_walk(const char *name, struct nameidata *nd)
{
	int err;

	while (*name == '/')
		name++;
	nd->last = (struct qstr){ .name = name };
	nd->last_type = LAST_ROOT;
	while (*name) {
		poll_credit();
		err = may_lookup(nd);
		if (err)
			return err;
		name += hash_name(nd->path.dentry, name, &nd->last);
		if (nd->last.len > NAME_MAX)
			return -ENAMETOOLONG;
		nd->last_type = name_type(&nd->last);
		if (!*name)
			return 0;
		while (*name == '/')
			name++;
		if (!*name) {
			nd->flags |= LOOKUP_FOLLOW | LOOKUP_DIRECTORY;
			return 0;
		}
		err = walk_component(nd, false);
		if (err)
			return err;
		if (!d_is_dir(nd->path.dentry))
			return -ENOTDIR;
	}
	return 0;
}

int path_init(struct nameidata *nd, unsigned int flags)
{
	struct file *f;

	nd->flags |= flags;
	if (*nd->name->name == '/') {
		set_root(nd);
		nd->path = nd->root;
		path_get(&nd->path);
		return 0;
	}
	if (nd->dfd == AT_FDCWD) {
		nd->path = current->fs->pwd;
		path_get(&nd->path);
		return 0;
	}
	f = fget(nd->dfd);
	if (!f)
		return -EBADF;
	nd->path = f->f_path;
	path_get(&nd->path);
	fput(f);
	return !*nd->name->name || d_is_dir(nd->path.dentry) ? 0 : (path_put(&nd->path), -ENOTDIR);
}

static noinline const char *lookup_last(struct nameidata *nd, int *err)
{
	*err = nd->last.len ? walk_component(nd, true) : 0;
	return NULL;
}

noinline int complete_walk(struct nameidata *nd)
{
	return (nd->flags & LOOKUP_DIRECTORY) && !d_is_dir(nd->path.dentry) ? -ENOTDIR : 0;
}

static noinline int path_lookupat(struct nameidata *nd, unsigned int flags, struct path *path)
{
	int err = path_init(nd, flags);

	if (err)
		return err;
	err = link_path_walk(nd->name->name, nd);
	if (!err)
		lookup_last(nd, &err);
	if (!err)
		err = complete_walk(nd);
	if (!err) {
		*path = nd->path;
		nd->path.dentry = NULL;
	}
	terminate_walk(nd);
	return err;
}

noinline int filename_lookup(int dfd, struct filename *name, unsigned int flags, struct path *path)
{
	struct nameidata nd;

	if (IS_ERR(name))
		return PTR_ERR(name);
	set_nameidata(&nd, dfd, name);
	return path_lookupat(&nd, flags, path);
}

int kern_path(const char *name, unsigned int flags, struct path *path)
{
	struct filename *filename = getname_kernel(name);
	int ret = filename_lookup(AT_FDCWD, filename, flags, path);

	putname(filename);
	return ret;
}

int user_path_at_empty(int dfd, const char __user *name, unsigned int flags, struct path *path)
{
	struct filename *filename = getname_flags(name, flags & LOOKUP_EMPTY ? AT_EMPTY_PATH : 0);
	int ret = filename_lookup(dfd, filename, flags, path);

	putname(filename);
	return ret;
}

static noinline int path_parentat(struct nameidata *nd, unsigned int flags, struct path *parent)
{
	int err = path_init(nd, flags | LOOKUP_PARENT);

	if (err)
		return err;
	err = link_path_walk(nd->name->name, nd);
	if (!err) {
		*parent = nd->path;
		nd->path.dentry = NULL;
	}
	terminate_walk(nd);
	return err;
}

int filename_parentat(int dfd, struct filename *name, struct path *parent, struct qstr *last,
		      int *type)
{
	struct nameidata nd;
	int err;

	if (IS_ERR(name))
		return PTR_ERR(name);
	set_nameidata(&nd, dfd, name);
	err = path_parentat(&nd, 0, parent);
	*last = nd.last;
	*type = nd.last_type;
	return err;
}

/* Find a name in a directory that the caller holds. */
struct dentry *lookup_one_len_unlocked(const char *name, struct dentry *base)
{
	struct qstr this = qstr_of(name, strlen(name));

	return __lookup_hash(&this, base, LOOKUP_EXCL);
}
