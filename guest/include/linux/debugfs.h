/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Files of a module in /sys/kernel/debug: fs/debugfs.c. What is read and written is served by
 * the module's own functions, or is a variable of its own.
 */
#pragma once
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/seq_file.h>

/* Until 5.6 these gave the new entry, and nothing since then. */
#if defined(MODULE) && !defined(KPFS_API_2_6)
typedef void debugfs_made_t;
#else
typedef struct dentry *debugfs_made_t;
#endif

struct debugfs_blob_wrapper {
	void *data;
	unsigned long size;
};
struct debugfs_u32_array {
	u32 *array;
	u32 n_elements;
};

struct dentry *debugfs_create_dir(const char *name, struct dentry *parent);
struct dentry *debugfs_create_file(const char *name, umode_t mode, struct dentry *parent,
				   void *data, const struct file_operations *fops);
struct dentry *debugfs_create_file_unsafe(const char *name, umode_t mode, struct dentry *parent,
					  void *data, const struct file_operations *fops);
struct dentry *debugfs_create_blob(const char *name, umode_t mode, struct dentry *parent,
				   struct debugfs_blob_wrapper *blob);
struct dentry *debugfs_lookup(const char *name, struct dentry *parent);
void debugfs_remove(struct dentry *dentry);
#define debugfs_remove_recursive(d) debugfs_remove(d)
static inline bool debugfs_initialized(void) { return true; }

#define __DEBUGFS_CREATE(suffix, type) \
	debugfs_made_t debugfs_create_##suffix(const char *name, umode_t mode, \
					       struct dentry *parent, type *value)
__DEBUGFS_CREATE(u8, u8);
__DEBUGFS_CREATE(u16, u16);
__DEBUGFS_CREATE(u32, u32);
__DEBUGFS_CREATE(u64, u64);
__DEBUGFS_CREATE(ulong, unsigned long);
__DEBUGFS_CREATE(x8, u8);
__DEBUGFS_CREATE(x16, u16);
__DEBUGFS_CREATE(x32, u32);
__DEBUGFS_CREATE(x64, u64);
__DEBUGFS_CREATE(size_t, size_t);
__DEBUGFS_CREATE(atomic_t, atomic_t);
__DEBUGFS_CREATE(bool, bool);
__DEBUGFS_CREATE(u32_array, struct debugfs_u32_array);

ssize_t debugfs_attr_read(struct file *file, char __user *buf, size_t len, loff_t *ppos);
ssize_t debugfs_attr_write(struct file *file, const char __user *buf, size_t len, loff_t *ppos);
/* A file is open for as long as its functions run: there is nothing to be done for it. */
static inline int debugfs_file_get(struct dentry *dentry) { return 0; }
static inline void debugfs_file_put(struct dentry *dentry) {}

#define DEFINE_DEBUGFS_ATTRIBUTE(fops, get, set, fmt) \
	__DEFINE_ATTRIBUTE(fops, get, set, fmt, debugfs_attr_read, debugfs_attr_write, no_llseek)
