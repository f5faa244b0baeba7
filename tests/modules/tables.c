// SPDX-License-Identifier: GPL-2.0-or-later
/* debugfs/tables: the tasks that stand for processes of the host, and their open files. */
#include <linux/debugfs.h>
#include <linux/fdtable.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/pipe_fs_i.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#define SIZE (256 << 10)
static char *text;
static size_t length;
static struct dentry *file;

#define SAY(...) (length += scnprintf(text + length, SIZE - length, __VA_ARGS__))

/* A line for each descriptor: number, close on exec, flags, file, name, pipe, readers, writers. */
static void say_file(unsigned int fd, bool cloexec, const struct file *f)
{
	const char *type = f->f_inode->i_sb->s_type->name;
	const struct pipe_inode_info *pipe = strcmp(type, "pipefs") ? NULL : f->private_data;

	SAY("fd %u %d %x %lx %s %d %lx %u %u %.*s\n", fd, cloexec, f->f_flags, (unsigned long)f,
	    type, S_ISDIR(f->f_inode->i_mode), (unsigned long)pipe, pipe ? pipe->readers : 0,
	    pipe ? pipe->writers : 0, (int)f->f_path.dentry->d_name.len,
	    (const char *)f->f_path.dentry->d_name.name);
}

static void say_task(const struct task_struct *p)
{
	const struct fdtable *fdt = &p->files->fdt;

	SAY("task %d %d %u %lu %s\n", p->pid, p->real_parent->pid, p->cred->uid.val, p->files->id,
	    p->comm);
	for (unsigned int fd = 0; fd < fdt->max_fds; fd++)
		if (fdt->fd[fd])
			say_file(fd, test_bit(fd, fdt->close_on_exec), fdt->fd[fd]);
		else if (test_bit(fd, fdt->open_fds))
			SAY("fd %u is taken by no file\n", fd);
}

static ssize_t tables_read(struct file *f, char __user *buf, size_t len, loff_t *ppos)
{
	struct task_struct *p;

	if (!*ppos) {
		length = 0;
		for_each_process(p)
			if (p->flags & PF_HOST && p->files)
				say_task(p);
		SAY("end\n");
	}
	return simple_read_from_buffer(buf, len, ppos, text, length);
}

static const struct file_operations tables_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.read = tables_read,
	.llseek = default_llseek,
};

static int __init tables_init(void)
{
	text = kmalloc(SIZE, GFP_KERNEL);
	if (!text)
		return -ENOMEM;
	file = debugfs_create_file("tables", 0444, NULL, NULL, &tables_fops);
	return 0;
}

static void __exit tables_exit(void)
{
	debugfs_remove(file);
	kfree(text);
}

module_init(tables_init);
module_exit(tables_exit);
MODULE_LICENSE("GPL");
