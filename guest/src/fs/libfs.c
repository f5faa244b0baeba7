// SPDX-License-Identifier: GPL-2.0-or-later
/* What simple file systems have in common. */
#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/uaccess.h>

/* Nothing there: the entry stays negative. */
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

void truncate_setsize(struct inode *inode, loff_t newsize)
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

int simple_unlink(struct inode *dir, struct dentry *dentry)
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

ssize_t simple_read_from_buffer(void __user *to, size_t count, loff_t *ppos, const void *from,
				size_t available)
{
	loff_t pos = *ppos;
	size_t left;

	if (pos < 0)
		return -EINVAL;
	if ((size_t)pos >= available || !count)
		return 0;
	count = min(count, available - (size_t)pos);
	left = copy_to_user(to, from + pos, count);
	if (left == count)
		return -EFAULT;
	count -= left;
	*ppos = pos + count;
	return count;
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
