// SPDX-License-Identifier: GPL-2.0-or-later
/* Functions that simple file systems share. */
#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

/* Find nothing: the entry stays negative. */
struct dentry *simple_lookup(struct inode *dir, struct dentry *dentry, unsigned int flags)
{
	if (dentry->d_name.len > NAME_MAX)
		return ERR_PTR(-ENAMETOOLONG);
	d_add(dentry, NULL);
	return NULL;
}

int simple_getattr(const struct path *path, struct kstat *stat)
{
	generic_fillattr(d_inode(path->dentry), stat);
	return 0;
}

noinline void setattr_copy(struct inode *inode, const struct iattr *attr)
{
	if (attr->ia_valid & ATTR_UID)
		inode->i_uid = attr->ia_uid;
	if (attr->ia_valid & ATTR_GID)
		inode->i_gid = attr->ia_gid;
	if (attr->ia_valid & ATTR_MODE)
		inode->i_mode = attr->ia_mode;
	if (attr->ia_valid & ATTR_ATIME)
		inode->i_atime = attr->ia_atime;
	if (attr->ia_valid & ATTR_MTIME)
		inode->i_mtime = attr->ia_mtime;
	inode->i_ctime = current_time(inode);
}

noinline void truncate_setsize(struct inode *inode, loff_t newsize)
{
	loff_t oldsize = inode->i_size;

	inode->i_size = newsize;
	if (newsize < oldsize)
		truncate_inode_pages(inode->i_mapping, newsize);
}

int simple_setattr(struct dentry *dentry, struct iattr *attr)
{
	struct inode *inode = d_inode(dentry);

	if (attr->ia_valid & ATTR_SIZE)
		truncate_setsize(inode, attr->ia_size);
	setattr_copy(inode, attr);
	return 0;
}

int simple_link(struct dentry *old_dentry, struct inode *dir, struct dentry *dentry)
{
	struct inode *inode = d_inode(old_dentry);

	inc_nlink(inode);
	ihold(inode);
	dget(dentry);
	d_instantiate(dentry, inode);
	return 0;
}

noinline int simple_empty(struct dentry *dentry)
{
	struct dentry *child;

	list_for_each_entry(child, &dentry->d_subdirs, d_child)
		if (d_really_is_positive(child))
			return 0;
	return 1;
}

noinline int simple_unlink(struct inode *dir, struct dentry *dentry)
{
	struct inode *inode = d_inode(dentry);

	inode->i_ctime = dir->i_ctime = dir->i_mtime = current_time(inode);
	drop_nlink(inode);
	dput(dentry);
	return 0;
}

int simple_rmdir(struct inode *dir, struct dentry *dentry)
{
	if (!simple_empty(dentry))
		return -ENOTEMPTY;
	drop_nlink(d_inode(dentry));
	simple_unlink(dir, dentry);
	drop_nlink(dir);
	return 0;
}

int simple_rename(struct inode *old_dir, struct dentry *old_dentry, struct inode *new_dir,
		  struct dentry *new_dentry)
{
	bool they_are_dirs = d_is_dir(old_dentry);

	if (!simple_empty(new_dentry))
		return -ENOTEMPTY;
	if (d_really_is_positive(new_dentry)) {
		simple_unlink(new_dir, new_dentry);
		if (they_are_dirs) {
			drop_nlink(d_inode(new_dentry));
			drop_nlink(old_dir);
		}
	} else if (they_are_dirs) {
		drop_nlink(old_dir);
		inc_nlink(new_dir);
	}
	old_dir->i_mtime = new_dir->i_mtime = current_time(old_dir);
	return 0;
}

int noop_fsync(struct file *file, loff_t start, loff_t end, int datasync)
{
	return 0;
}

const char *simple_get_link(struct dentry *dentry, struct inode *inode)
{
	return inode->i_link;
}

/* Copy between user memory and the contents of a file from *ppos on. */
static __always_inline ssize_t simple_copy(void *file, size_t available, loff_t *ppos,
					   void __user *user, size_t count, bool write)
{
	loff_t pos = *ppos;
	size_t left;

	if (pos < 0)
		return -EINVAL;
	if ((size_t)pos >= available || !count)
		return 0;
	count = min(count, available - (size_t)pos);
	left = write ? copy_from_user(file + pos, user, count) :
		       copy_to_user(user, file + pos, count);
	if (left == count)
		return -EFAULT;
	count -= left;
	*ppos = pos + count;
	return count;
}

noinline ssize_t simple_read_from_buffer(void __user *to, size_t count, loff_t *ppos,
					 const void *from, size_t available)
{
	return simple_copy((void *)from, available, ppos, to, count, false);
}

ssize_t simple_write_to_buffer(void *to, size_t available, loff_t *ppos, const void __user *from,
			       size_t count)
{
	return simple_copy(to, available, ppos, (void __user *)from, count, true);
}

int simple_open(struct inode *inode, struct file *file)
{
	if (inode->i_private)
		file->private_data = inode->i_private;
	return 0;
}

int nonseekable_open(struct inode *inode, struct file *file)
{
	file->f_mode &= ~(FMODE_LSEEK | FMODE_PWRITE);
	return 0;
}

loff_t default_llseek(struct file *file, loff_t offset, int whence)
{
	return not_tail(generic_file_llseek(file, offset, whence));
}

loff_t noop_llseek(struct file *file, loff_t offset, int whence)
{
	return file->f_pos;
}

/* ---- files that are one number */
struct simple_attr {
	int (*get)(void *, u64 *);
	int (*set)(void *, u64);
	char get_buf[24]; /* enough for a u64 and a newline, else fmt must be so */
	char set_buf[24];
	void *data;
	const char *fmt;
	struct mutex mutex;
};

int simple_attr_open(struct inode *inode, struct file *file, int (*get)(void *, u64 *),
		     int (*set)(void *, u64), const char *fmt)
{
	struct simple_attr *attr = kzalloc(sizeof(*attr), GFP_KERNEL);

	if (!attr)
		return -ENOMEM;
	attr->get = get;
	attr->set = set;
	attr->data = inode->i_private;
	attr->fmt = fmt;
	mutex_init(&attr->mutex);
	file->private_data = attr;
	return 0;
}

int simple_attr_release(struct inode *inode, struct file *file)
{
	kfree(file->private_data);
	return 0;
}

/* Read a number as it was when its reading began. */
ssize_t simple_attr_read(struct file *file, char __user *buf, size_t len, loff_t *ppos)
{
	struct simple_attr *attr = file->private_data;
	ssize_t ret;
	u64 val;

	if (!attr->get)
		return -EACCES;
	guard(mutex)(&attr->mutex);
	if (!*ppos || !attr->get_buf[0]) {
		ret = attr->get(attr->data, &val);
		if (ret)
			return ret;
		scnprintf(attr->get_buf, sizeof(attr->get_buf), attr->fmt, (unsigned long long)val);
	}
	return simple_read_from_buffer(buf, len, ppos, attr->get_buf, strlen(attr->get_buf));
}

static noinline ssize_t attr_write(struct file *file, const char __user *buf, size_t len,
				   bool is_signed)
{
	struct simple_attr *attr = file->private_data;
	size_t size = min(sizeof(attr->set_buf) - 1, len);
	unsigned long long val = 0;
	ssize_t ret;

	if (!attr->set)
		return -EACCES;
	guard(mutex)(&attr->mutex);
	if (copy_from_user(attr->set_buf, buf, size))
		return -EFAULT;
	attr->set_buf[size] = 0;
	ret = is_signed ? kstrtoll(attr->set_buf, 0, (long long *)&val) :
			  kstrtoull(attr->set_buf, 0, &val);
	return ret ?: attr->set(attr->data, val) ?: len;
}

ssize_t simple_attr_write(struct file *file, const char __user *buf, size_t len, loff_t *ppos)
{
	return attr_write(file, buf, len, false);
}

ssize_t simple_attr_write_signed(struct file *file, const char __user *buf, size_t len,
				 loff_t *ppos)
{
	return attr_write(file, buf, len, true);
}

noinline int dcache_dir_open(struct inode *inode, struct file *file)
{
	return 0;
}

int dcache_dir_close(struct inode *inode, struct file *file)
{
	return 0;
}

loff_t dcache_dir_lseek(struct file *file, loff_t offset, int whence)
{
	if (whence == SEEK_CUR)
		offset += file->f_pos;
	else if (whence != SEEK_SET)
		return -EINVAL;
	if (offset >= 0)
		file->f_pos = offset;
	return offset < 0 ? -EINVAL : offset;
}

static inline unsigned char dt_type(struct inode *inode)
{
	return (inode->i_mode >> 12) & 15;
}

static noinline bool dir_emit_dots(struct file *file, struct dir_context *ctx)
{
	struct dentry *dentry = file->f_path.dentry;

	if (ctx->pos == 0) {
		if (!ctx->actor(ctx, ".", 1, ctx->pos, d_inode(dentry)->i_ino, 4))
			return false;
		ctx->pos = 1;
	}
	if (ctx->pos == 1) {
		if (!ctx->actor(ctx, "..", 2, ctx->pos, d_inode(dentry->d_parent)->i_ino, 4))
			return false;
		ctx->pos = 2;
	}
	return true;
}

int dcache_readdir(struct file *file, struct dir_context *ctx)
{
	struct dentry *dentry = file->f_path.dentry, *child;
	loff_t n = 2;

	if (!dir_emit_dots(file, ctx))
		return 0;
	list_for_each_entry(child, &dentry->d_subdirs, d_child) {
		if (d_is_negative(child) || hlist_unhashed(&child->d_hash) || n++ < ctx->pos)
			continue;
		if (!ctx->actor(ctx, child->d_name.name, child->d_name.len, ctx->pos,
				d_inode(child)->i_ino, dt_type(d_inode(child))))
			break;
		ctx->pos++;
	}
	return 0;
}

const struct file_operations simple_dir_operations = {
	.open = dcache_dir_open,
	.release = dcache_dir_close,
	.llseek = dcache_dir_lseek,
	.iterate_shared = dcache_readdir,
	.fsync = noop_fsync,
};
const struct inode_operations simple_dir_inode_operations = { .lookup = simple_lookup };
const struct inode_operations simple_symlink_inode_operations = { .get_link = simple_get_link };
