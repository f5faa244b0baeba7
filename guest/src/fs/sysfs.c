// SPDX-License-Identifier: GPL-2.0-or-later
/* /sys: directories are kernel objects, files their attributes. */
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/sysfs.h>
#include <linux/uaccess.h>

struct sysfs_file {
	struct kobject *kobj;
	struct kobj_attribute *attr;
};

static noinline ssize_t kobj_attr_show(struct sysfs_file *sf, char *buf)
{
	return sf->attr->show ? sf->attr->show(sf->kobj, sf->attr, buf) : -EIO;
}

static noinline ssize_t kobj_attr_store(struct sysfs_file *sf, const char *buf, size_t count)
{
	return sf->attr->store ? sf->attr->store(sf->kobj, sf->attr, buf, count) : -EIO;
}

static ssize_t sysfs_kf_read(struct file *file, char __user *buf, size_t count, loff_t *ppos)
{
	char *page __free_page = (char *)get_zeroed_page(GFP_KERNEL);
	ssize_t len;

	if (!page)
		return -ENOMEM;
	len = kobj_attr_show(file_inode(file)->i_private, page);
	return len < 0 ? len : simple_read_from_buffer(buf, count, ppos, page, len);
}

static ssize_t sysfs_kf_write(struct file *file, const char __user *buf, size_t count, loff_t *ppos)
{
	size_t len = min(count, PAGE_SIZE - 1);
	char *page = memdup_user(buf, len + !len);
	ssize_t ret;

	if (IS_ERR(page))
		return PTR_ERR(page);
	ret = kobj_attr_store(file_inode(file)->i_private, page, len);
	kfree(page);
	return ret;
}

static int sysfs_setattr(struct dentry *dentry, struct iattr *attr)
{
	return 0;
}

static const struct inode_operations sysfs_file_inode_operations = { .setattr = sysfs_setattr };
static const struct file_operations sysfs_file_operations = {
	.read = sysfs_kf_read,
	.write = sysfs_kf_write,
};

int sysfs_emit(char *buf, const char *fmt, ...)
{
	return with_va_list(args, fmt, vscnprintf(buf, PAGE_SIZE, fmt, args));
}

int sysfs_create_dir(struct kobject *kobj, const char *parent)
{
	struct dentry *dentry;
	struct path path;
	int error = kern_path(parent, LOOKUP_FOLLOW | LOOKUP_DIRECTORY, &path);

	if (error)
		return error;
	inode_lock(d_inode(path.dentry));
	dentry = lookup_one_len_unlocked(kobj->name, path.dentry);
	error = PTR_ERR_OR_ZERO(dentry);
	if (!error)
		error = vfs_mkdir(d_inode(path.dentry), dentry, 0755);
	inode_unlock(d_inode(path.dentry));
	path_put(&path);
	if (!error)
		kobj->sd = dentry;
	return error;
}

int sysfs_create_file(struct kobject *kobj, struct kobj_attribute *attr)
{
	struct inode *dir = d_inode(kobj->sd), *inode;
	struct sysfs_file *sf = kmalloc(sizeof(*sf), GFP_KERNEL);
	struct dentry *dentry = lookup_one_len_unlocked(attr->name, kobj->sd);
	int error;

	if (!sf || IS_ERR(dentry))
		return -ENOMEM;
	error = vfs_create(dir, dentry, attr->mode, true);
	if (error) {
		dput(dentry);
		kfree(sf);
		return error;
	}
	*sf = (struct sysfs_file){ kobj, attr };
	inode = d_inode(dentry);
	inode->i_op = &sysfs_file_inode_operations;
	inode->i_fop = &sysfs_file_operations;
	inode->i_private = sf;
	inode->i_size = PAGE_SIZE;
	dput(dentry);
	return 0;
}

int sysfs_create_files(struct kobject *kobj, struct kobj_attribute *const *attrs)
{
	int error = 0;

	for (; *attrs && !error; attrs++)
		error = sysfs_create_file(kobj, *attrs);
	return error;
}

struct kobject *kobject_create_and_add(const char *name, const char *parent, void *data)
{
	struct kobject *kobj = kzalloc(sizeof(*kobj), GFP_KERNEL);
	int error;

	if (!kobj)
		return NULL;
	kobj->name = name;
	kobj->data = data;
	error = sysfs_create_dir(kobj, parent);
	if (!error)
		return kobj;
	pr_warn("%s: %s/%s: error %d\n", __func__, parent, name, error);
	kfree(kobj);
	return NULL;
}
