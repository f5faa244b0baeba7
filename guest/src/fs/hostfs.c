// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The part that debugfs, tracefs and parts of proc share: any name below their mounts is found, as
 * Python has looked already, and what an open file is asked is asked of Python (kernel/host.c). Up
 * to a page of the data really goes to or comes from user memory.
 */
#include <linux/host.h>
#include <linux/hostfs.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/string.h>
#include <linux/uaccess.h>

static int host_setattr(struct dentry *dentry, struct iattr *attr)
{
	return 0;
}

static const struct inode_operations host_file_inode_operations = { .setattr = host_setattr };

struct inode *host_get_inode(struct super_block *sb, umode_t mode,
			     const struct file_operations *fops,
			     const struct inode_operations *dir_ops)
{
	struct inode *inode = new_inode(sb);

	if (!inode)
		return NULL;
	inode->i_ino = get_next_ino();
	inode->i_mode = mode;
	inode->i_atime = inode->i_mtime = inode->i_ctime = current_time(inode);
	inode->i_op = S_ISDIR(mode) ? dir_ops : &host_file_inode_operations;
	inode->i_fop = S_ISDIR(mode) ? &simple_dir_operations : fops;
	return inode;
}

/* Find any name; the entry is the caller's alone and goes with its last user. */
noinline struct dentry *host_lookup(struct inode *dir, struct dentry *dentry, unsigned int flags,
				    const struct file_operations *fops,
				    const struct inode_operations *dir_ops)
{
	struct inode *inode;

	if (dentry->d_name.len > NAME_MAX)
		return ERR_PTR(-ENAMETOOLONG);
	if (flags & LOOKUP_EXCL)
		return NULL;
	inode = host_get_inode(dir->i_sb,
			       flags & LOOKUP_DIRECTORY ? S_IFDIR | 0777 : S_IFREG | 0666, fops,
			       dir_ops);
	if (!inode)
		return ERR_PTR(-ENOMEM);
	dentry->d_flags |= DCACHE_TRANSIENT;
	d_instantiate(dentry, inode);
	return NULL;
}

/* Open a file; Python sees its path from the root of the name space. */
long host_file_open(struct inode *inode, struct file *file)
{
	struct kpfs_host_op op = {
		.kind = HOST_OPEN,
		.flags = file->f_flags,
		.mode = inode->i_mode,
	};
	char *page __free_page = (char *)__get_free_page(GFP_KERNEL), *path;
	long ret;

	if (!page)
		return -ENOMEM;
	path = d_path(&file->f_path, page, PATH_MAX);
	if (IS_ERR(path))
		return PTR_ERR(path);
	op.path = (unsigned long)path;
	ret = kpfs_host_op(&op);
	file->f_cookie = op.cookie;
	if (op.flags & HOST_NO_PWRITE)
		file->f_mode &= ~FMODE_PWRITE;
	if (op.flags & HOST_NOT_INHERITED)
		file->f_mode |= FMODE_NOT_INHERITED;
	return ret < 0 ? ret : 0;
}

static noinline long host_file_op(struct file *file, int kind, size_t count, loff_t *ppos,
				  void *data)
{
	struct kpfs_host_op op = {
		.kind = kind,
		.cookie = file->f_cookie,
		.flags = file->f_flags,
		.count = count,
		.pos = *ppos,
		.data = (unsigned long)data,
	};
	long ret = kpfs_host_op(&op);

	*ppos = op.pos;
	return ret;
}

ssize_t host_file_read(struct file *file, char __user *buf, size_t count, loff_t *ppos)
{
	char *page __free_page = (char *)__get_free_page(GFP_KERNEL);
	ssize_t ret;

	if (!page)
		return -ENOMEM;
	ret = host_file_op(file, HOST_READ, count, ppos, page);
	if (ret > 0 && copy_to_user(buf, page, min_t(size_t, ret, HOST_DATA_SIZE)))
		return -EFAULT;
	return ret;
}

ssize_t host_file_write(struct file *file, const char __user *buf, size_t count, loff_t *ppos)
{
	char *page __free_page = (char *)__get_free_page(GFP_KERNEL);

	if (!page)
		return -ENOMEM;
	if (copy_from_user(page, buf, min_t(size_t, count, HOST_DATA_SIZE)))
		return -EFAULT;
	return host_file_op(file, HOST_WRITE, count, ppos, page);
}

noinline int host_file_release(struct inode *inode, struct file *file)
{
	loff_t pos = file->f_pos;

	host_file_op(file, HOST_RELEASE, 0, &pos, NULL);
	return 0;
}

/* Fill in the super block of such a file system. */
static noinline int host_fill_super(struct super_block *sb, const struct inode_operations *dir_ops)
{
	struct inode *inode = host_get_inode(sb, S_IFDIR | 0777, NULL, dir_ops);

	sb->s_root = d_make_root(inode);
	return sb->s_root ? 0 : -ENOMEM;
}

static int full_proxy_open(struct inode *inode, struct file *filp)
{
	return not_tail(host_file_open(inode, filp));
}

static ssize_t full_proxy_read(struct file *filp, char __user *buf, size_t size, loff_t *ppos)
{
	return not_tail(host_file_read(filp, buf, size, ppos));
}

static ssize_t full_proxy_write(struct file *filp, const char __user *buf, size_t size,
				loff_t *ppos)
{
	return not_tail(host_file_write(filp, buf, size, ppos));
}

static int full_proxy_release(struct inode *inode, struct file *filp)
{
	return not_tail(host_file_release(inode, filp));
}

static const struct file_operations debugfs_full_proxy_file_operations = {
	.open = full_proxy_open,
	.read = full_proxy_read,
	.write = full_proxy_write,
	.release = full_proxy_release,
};
static const struct inode_operations debugfs_dir_inode_operations;

static noinline struct dentry *debugfs_lookup_entry(struct inode *dir, struct dentry *dentry,
						    unsigned int flags)
{
	return host_lookup(dir, dentry, flags, &debugfs_full_proxy_file_operations,
			   &debugfs_dir_inode_operations);
}

static const struct inode_operations debugfs_dir_inode_operations = {
	.lookup = debugfs_lookup_entry,
	.setattr = host_setattr,
};

static int debug_fill_super(struct super_block *sb)
{
	sb->s_magic = 0x64626720;
	return host_fill_super(sb, &debugfs_dir_inode_operations);
}

static int tracing_open_generic(struct inode *inode, struct file *filp)
{
	return not_tail(host_file_open(inode, filp));
}

static ssize_t tracing_read(struct file *filp, char __user *ubuf, size_t cnt, loff_t *ppos)
{
	return not_tail(host_file_read(filp, ubuf, cnt, ppos));
}

static ssize_t tracing_write(struct file *filp, const char __user *ubuf, size_t cnt, loff_t *ppos)
{
	return not_tail(host_file_write(filp, ubuf, cnt, ppos));
}

static int tracing_release(struct inode *inode, struct file *filp)
{
	return not_tail(host_file_release(inode, filp));
}

static const struct file_operations tracing_fops = {
	.open = tracing_open_generic,
	.read = tracing_read,
	.write = tracing_write,
	.release = tracing_release,
};

/* Write to trace_marker, whose record has the place where it was made: this function. */
static ssize_t tracing_mark_write(struct file *filp, const char __user *ubuf, size_t cnt,
				  loff_t *fpos)
{
	return not_tail(host_file_write(filp, ubuf, cnt, fpos));
}

static const struct file_operations tracing_mark_fops = {
	.open = tracing_open_generic,
	.write = tracing_mark_write,
	.release = tracing_release,
};
static const struct inode_operations tracefs_dir_inode_operations;

static struct dentry *tracefs_lookup(struct inode *dir, struct dentry *dentry, unsigned int flags)
{
	bool mark = !strcmp((const char *)dentry->d_name.name, "trace_marker");

	return host_lookup(dir, dentry, flags, mark ? &tracing_mark_fops : &tracing_fops,
			   &tracefs_dir_inode_operations);
}

static const struct inode_operations tracefs_dir_inode_operations = {
	.lookup = tracefs_lookup,
	.setattr = host_setattr,
};

static int trace_fill_super(struct super_block *sb)
{
	sb->s_magic = 0x74726163;
	return host_fill_super(sb, &tracefs_dir_inode_operations);
}

static struct file_system_type debug_fs_type = {
	.name = "debugfs",
	.fill_super = debug_fill_super,
};
static struct file_system_type trace_fs_type = {
	.name = "tracefs",
	.fill_super = trace_fill_super,
};
static struct super_block *tracefs_sb;
struct super_block *debugfs_sb;

/* Return the entry of a new directory, with the caller's reference. */
static noinline struct dentry *__create_dir(const char *name, struct dentry *parent,
					    struct super_block *sb,
					    const struct inode_operations *op)
{
	struct qstr this = qstr_of(name, strlen(name));
	struct dentry *dentry = d_alloc(parent ? parent : sb->s_root, &this);
	struct inode *inode;

	if (!dentry)
		return ERR_PTR(-ENOMEM);
	inode = host_get_inode(sb, S_IFDIR | 0755, NULL, op);
	if (!inode) {
		dput(dentry);
		return ERR_PTR(-ENOMEM);
	}
	d_instantiate(dentry, inode);
	return dentry;
}

/* Python calls these when a directory of an event comes or goes. */
struct dentry *tracefs_create_dir(const char *name, struct dentry *parent)
{
	return __create_dir(name, parent, tracefs_sb, &tracefs_dir_inode_operations);
}

void tracefs_remove(struct dentry *dentry)
{
	if (!IS_ERR_OR_NULL(dentry))
		dput(dentry);
}

/* The files of our own, below "/machine". */
static struct file_system_type machine_fs_type = { .name = "kpfs", .fill_super = debug_fill_super };

#include <linux/init.h>
static int __init hostfs_mount_all(void)
{
	struct path path;
	int err;

	err = do_mount("/sys/kernel/debug", &debug_fs_type);
	err = err ?: do_mount("/sys/kernel/tracing", &trace_fs_type);
	err = err ?: do_mount("/machine", &machine_fs_type);
	if (err)
		return err;
	err = kern_path("/sys/kernel/tracing", 0, &path);
	tracefs_sb = path.mnt->mnt_sb;
	path_put(&path);
	err = kern_path("/sys/kernel/debug", 0, &path);
	debugfs_sb = path.mnt->mnt_sb;
	path_put(&path);
	return err;
}
late_initcall(hostfs_mount_all);
