/* SPDX-License-Identifier: GPL-2.0-or-later */
/* File systems whose files Python serves: fs/hostfs.c. */
#pragma once
#include <linux/fs.h>
struct dentry *host_lookup(struct inode *dir, struct dentry *dentry, unsigned int flags,
			   const struct file_operations *fops,
			   const struct inode_operations *dir_ops);
struct inode *host_get_inode(struct super_block *sb, umode_t mode,
			     const struct file_operations *fops,
			     const struct inode_operations *dir_ops);
long host_file_open(struct inode *inode, struct file *file);
ssize_t host_file_read(struct file *file, char __user *buf, size_t count, loff_t *ppos);
ssize_t host_file_write(struct file *file, const char __user *buf, size_t count, loff_t *ppos);
int host_file_release(struct inode *inode, struct file *file);
struct dentry *tracefs_create_dir(const char *name, struct dentry *parent);
void tracefs_remove(struct dentry *dentry);
/* Makes and removes the directories of events that have come or gone outside. */
void update_event_dirs(void);
extern struct super_block *debugfs_sb;
