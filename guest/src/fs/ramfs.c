// SPDX-License-Identifier: GPL-2.0-or-later
/* The root file system: everything is in the page cache and stays there. */
#include <linux/fs.h>
#include <linux/slab.h>
#include <linux/string.h>

static const struct inode_operations ramfs_dir_inode_operations, ramfs_file_inode_operations;

const struct file_operations ramfs_file_operations = {
	.read_iter = generic_file_read_iter,
	.write_iter = generic_file_write_iter,
	.fsync = noop_fsync,
	.llseek = generic_file_llseek,
};

noinline struct inode *ramfs_get_inode(struct super_block *sb, const struct inode *dir,
				       umode_t mode, dev_t dev)
{
	struct inode *inode = new_inode(sb);

	if (!inode)
		return NULL;
	inode->i_ino = get_next_ino();
	inode_init_owner(inode, dir, mode);
	switch (mode & S_IFMT) {
	case S_IFREG:
		inode->i_op = &ramfs_file_inode_operations;
		inode->i_fop = &ramfs_file_operations;
		break;
	case S_IFDIR:
		inode->i_op = &ramfs_dir_inode_operations;
		inode->i_fop = &simple_dir_operations;
		inc_nlink(inode);
		break;
	case S_IFLNK: inode->i_op = &simple_symlink_inode_operations; break;
	}
	return inode;
}

/* The reference that keeps the entry is dropped by unlink. */
static noinline int ramfs_mknod(struct inode *dir, struct dentry *dentry, umode_t mode, dev_t dev)
{
	struct inode *inode = ramfs_get_inode(dir->i_sb, dir, mode, dev);

	if (!inode)
		return -ENOSPC;
	d_instantiate(dentry, inode);
	if (hlist_unhashed(&dentry->d_hash))
		d_rehash(dentry);
	dget(dentry);
	dir->i_mtime = dir->i_ctime = current_time(dir);
	return 0;
}

static int ramfs_mkdir(struct inode *dir, struct dentry *dentry, umode_t mode)
{
	int retval = ramfs_mknod(dir, dentry, mode | S_IFDIR, 0);

	if (!retval)
		inc_nlink(dir);
	return retval;
}

static int ramfs_create(struct inode *dir, struct dentry *dentry, umode_t mode, bool excl)
{
	return ramfs_mknod(dir, dentry, mode | S_IFREG, 0);
}

static int ramfs_symlink(struct inode *dir, struct dentry *dentry, const char *symname)
{
	char *link = kstrdup(symname, GFP_KERNEL);
	int error;

	if (!link)
		return -ENOMEM;
	error = ramfs_mknod(dir, dentry, S_IFLNK | 0777, 0);
	if (error) {
		kfree(link);
		return error;
	}
	d_inode(dentry)->i_link = link;
	d_inode(dentry)->i_size = strlen(link);
	return 0;
}

static const struct inode_operations ramfs_file_inode_operations = {
	.setattr = simple_setattr,
	.getattr = simple_getattr,
};

static const struct inode_operations ramfs_dir_inode_operations = {
	.lookup = simple_lookup,
	.create = ramfs_create,
	.link = simple_link,
	.unlink = simple_unlink,
	.symlink = ramfs_symlink,
	.mkdir = ramfs_mkdir,
	.rmdir = simple_rmdir,
	.rename = simple_rename,
	.setattr = simple_setattr,
};

static int ramfs_fill_super(struct super_block *sb)
{
	struct inode *inode = ramfs_get_inode(sb, NULL, S_IFDIR | 0755, 0);

	sb->s_magic = 0x858458f6;
	sb->s_root = d_make_root(inode);
	return sb->s_root ? 0 : -ENOMEM;
}

struct file_system_type ramfs_fs_type = { .name = "ramfs", .fill_super = ramfs_fill_super };
