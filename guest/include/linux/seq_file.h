/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/fs.h>

struct seq_operations;
struct seq_file {
	char *buf;
	size_t size, from, count;
	loff_t index, read_pos;
	struct mutex lock;
	const struct seq_operations *op;
	struct file *file;
	void *private;
};
struct seq_operations {
	void *(*start)(struct seq_file *m, loff_t *pos);
	void (*stop)(struct seq_file *m, void *v);
	void *(*next)(struct seq_file *m, void *v, loff_t *pos);
	int (*show)(struct seq_file *m, void *v);
};
#define SEQ_START_TOKEN ((void *)1)
int seq_open(struct file *file, const struct seq_operations *op);
ssize_t seq_read(struct file *file, char __user *buf, size_t size, loff_t *ppos);
loff_t seq_lseek(struct file *file, loff_t offset, int whence);
int seq_release(struct inode *inode, struct file *file);
int seq_write(struct seq_file *m, const void *data, size_t len);
void seq_putc(struct seq_file *m, char c);
void seq_puts(struct seq_file *m, const char *s);
void seq_printf(struct seq_file *m, const char *fmt, ...) __printf(2, 3);
int seq_path(struct seq_file *m, const struct path *path);
struct list_head *seq_list_start(struct list_head *head, loff_t pos);
struct list_head *seq_list_next(void *v, struct list_head *head, loff_t *ppos);
int single_open(struct file *file, int (*show)(struct seq_file *, void *), void *data);
int single_release(struct inode *inode, struct file *file);
#define DEFINE_SHOW_ATTRIBUTE(__name) \
static int __name##_open(struct inode *inode, struct file *file) \
{ return single_open(file, __name##_show, inode->i_private); } \
static const struct file_operations __name##_fops = { \
	.owner = THIS_MODULE, \
	.open = __name##_open, \
	.read = seq_read, \
	.llseek = seq_lseek, \
	.release = single_release, \
}
static inline bool seq_has_overflowed(struct seq_file *m) { return m->count == m->size; }
