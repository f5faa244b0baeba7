// SPDX-License-Identifier: GPL-2.0-or-later
/* /proc: what the kernel says of itself, and below sys/ what Python serves. */
#include <linux/hostfs.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/proc_fs.h>
#include <linux/string.h>

static struct proc_dir_entry *proc_root;

static noinline struct proc_dir_entry *proc_register(struct proc_dir_entry *dp)
{
	dp->next = proc_root;
	proc_root = dp;
	return dp;
}

static noinline struct proc_dir_entry *__proc_create(const char *name, umode_t mode)
{
	struct proc_dir_entry *ent = kzalloc(sizeof(*ent), GFP_KERNEL);

	if (ent) {
		ent->name = name;
		ent->mode = mode ?: 0444;
	}
	return ent;
}

struct proc_dir_entry *proc_create_single_data(const char *name, umode_t mode,
					       int (*show)(struct seq_file *, void *), void *data)
{
	struct proc_dir_entry *p = __proc_create(name, mode);

	if (!p)
		return NULL;
	p->single_show = show;
	p->data = data;
	return proc_register(p);
}

struct proc_dir_entry *proc_create_seq(const char *name, umode_t mode,
				       const struct seq_operations *ops)
{
	struct proc_dir_entry *p = __proc_create(name, mode);

	if (!p)
		return NULL;
	p->seq_ops = ops;
	return proc_register(p);
}

static int proc_single_open(struct inode *inode, struct file *file)
{
	struct proc_dir_entry *de = inode->i_private;

	return single_open(file, de->single_show, de->data);
}

static int proc_seq_open(struct inode *inode, struct file *file)
{
	struct proc_dir_entry *de = inode->i_private;

	return seq_open(file, de->seq_ops);
}

static int proc_reg_open(struct inode *inode, struct file *file)
{
	struct proc_dir_entry *de = inode->i_private;

	if (!de)
		return host_file_open(inode, file);
	return de->single_show ? proc_single_open(inode, file) : proc_seq_open(inode, file);
}

static ssize_t proc_reg_read(struct file *file, char __user *buf, size_t count, loff_t *ppos)
{
	return not_tail(file_inode(file)->i_private ? seq_read(file, buf, count, ppos) :
						      host_file_read(file, buf, count, ppos));
}

static ssize_t proc_reg_write(struct file *file, const char __user *buf, size_t count, loff_t *ppos)
{
	if (!file_inode(file)->i_private)
		return host_file_write(file, buf, count, ppos);
	return -EIO;
}

static loff_t proc_reg_llseek(struct file *file, loff_t offset, int whence)
{
	if (!file_inode(file)->i_private)
		return generic_file_llseek(file, offset, whence);
	return seq_lseek(file, offset, whence);
}

static int proc_reg_release(struct inode *inode, struct file *file)
{
	struct proc_dir_entry *de = inode->i_private;

	if (!de)
		return host_file_release(inode, file);
	return de->single_show ? single_release(inode, file) : seq_release(inode, file);
}

static const struct file_operations proc_reg_file_ops = {
	.open = proc_reg_open,
	.read = proc_reg_read,
	.write = proc_reg_write,
	.llseek = proc_reg_llseek,
	.release = proc_reg_release,
};

static int proc_sys_open(struct inode *inode, struct file *filp)
{
	return not_tail(host_file_open(inode, filp));
}

static noinline ssize_t proc_sys_call_handler(struct file *filp, void __user *buf, size_t count,
					      loff_t *ppos, int write)
{
	if (write)
		return host_file_write(filp, buf, count, ppos);
	return host_file_read(filp, buf, count, ppos);
}

static ssize_t proc_sys_read(struct file *filp, char __user *buf, size_t count, loff_t *ppos)
{
	return proc_sys_call_handler(filp, buf, count, ppos, 0);
}

static ssize_t proc_sys_write(struct file *filp, const char __user *buf, size_t count, loff_t *ppos)
{
	return proc_sys_call_handler(filp, (void __user *)buf, count, ppos, 1);
}

static const struct file_operations proc_sys_file_operations = {
	.open = proc_sys_open,
	.read = proc_sys_read,
	.write = proc_sys_write,
	.release = host_file_release,
};

static const struct inode_operations proc_sys_dir_operations;

static struct dentry *proc_sys_lookup(struct inode *dir, struct dentry *dentry, unsigned int flags)
{
	return host_lookup(dir, dentry, flags, &proc_sys_file_operations, &proc_sys_dir_operations);
}

static int proc_sys_setattr(struct dentry *dentry, struct iattr *attr)
{
	return attr->ia_valid & (ATTR_MODE | ATTR_UID | ATTR_GID) ? -EPERM : 0;
}

static const struct inode_operations proc_sys_dir_operations = {
	.lookup = proc_sys_lookup,
	.setattr = proc_sys_setattr,
};

static noinline struct proc_dir_entry *pde_find(const char *name)
{
	struct proc_dir_entry *de;

	for (de = proc_root; de; de = de->next)
		if (!strcmp(de->name, name))
			break;
	return de;
}

static int proc_setattr(struct dentry *dentry, struct iattr *attr)
{
	return 0;
}
static const struct inode_operations proc_file_inode_operations = { .setattr = proc_setattr };

static noinline struct inode *proc_get_inode(struct super_block *sb, struct proc_dir_entry *de)
{
	struct inode *inode = new_inode(sb);

	if (!inode)
		return NULL;
	inode->i_ino = get_next_ino();
	inode->i_mode = S_IFREG | de->mode;
	inode->i_op = &proc_file_inode_operations;
	inode->i_fop = &proc_reg_file_ops;
	inode->i_private = de;
	inode->i_atime = inode->i_mtime = inode->i_ctime = current_time(inode);
	return inode;
}

static const char *const host_names[] = { "kallsyms", "modules", "kmsg", "kcore", NULL };

static struct dentry *proc_root_lookup(struct inode *dir, struct dentry *dentry, unsigned int flags)
{
	struct proc_dir_entry *de = pde_find(dentry->d_name.name);
	struct inode *inode;

	if (!strcmp(dentry->d_name.name, "sys")) {
		inode = host_get_inode(dir->i_sb, S_IFDIR | 0777, NULL, &proc_sys_dir_operations);
	} else if (de) {
		inode = proc_get_inode(dir->i_sb, de);
	} else if (match_string(host_names, ARRAY_SIZE(host_names), dentry->d_name.name) >= 0) {
		return host_lookup(dir, dentry, flags, &proc_reg_file_ops, dir->i_op);
	} else {
		return simple_lookup(dir, dentry, flags);
	}
	if (!inode)
		return ERR_PTR(-ENOMEM);
	d_instantiate(dentry, inode);
	return NULL;
}

static const struct inode_operations proc_root_inode_operations = { .lookup = proc_root_lookup };

static int proc_fill_super(struct super_block *s)
{
	struct inode *inode = host_get_inode(s, S_IFDIR | 0555, NULL, &proc_root_inode_operations);

	s->s_magic = 0x9fa0;
	s->s_blocksize = 1024;
	s->s_root = d_make_root(inode);
	return s->s_root ? 0 : -ENOMEM;
}

static struct file_system_type proc_fs_type = { .name = "proc", .fill_super = proc_fill_super };

static int __init proc_root_init(void)
{
	return register_filesystem(&proc_fs_type) ?: do_mount("/proc", &proc_fs_type);
}
fs_initcall(proc_root_init);
