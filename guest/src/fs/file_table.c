// SPDX-License-Identifier: GPL-2.0-or-later
/* Open files. */
#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/string.h>

static struct kmem_cache *filp_cachep;
static atomic_long_t nr_files;
void fdtable_init(void);

static void init_once(void *foo)
{
	memset(foo, 0, sizeof(struct file));
}

static noinline void file_free(struct file *f)
{
	atomic_long_dec(&nr_files);
	kmem_cache_free(filp_cachep, f);
}

static noinline struct file *__alloc_file(int flags)
{
	struct file *f = kmem_cache_zalloc(filp_cachep, GFP_KERNEL);

	if (!f)
		return ERR_PTR(-ENOMEM);
	atomic_long_set(&f->f_count, 1);
	mutex_init(&f->f_pos_lock);
	f->f_flags = flags;
	f->f_mode = (flags + 1) & O_ACCMODE;
	return f;
}

noinline struct file *alloc_empty_file(int flags)
{
	struct file *f = __alloc_file(flags);

	if (!IS_ERR(f))
		atomic_long_inc(&nr_files);
	return f;
}

struct file *alloc_file(const struct path *path, int flags, const struct file_operations *fop)
{
	struct file *file = alloc_empty_file(flags);

	if (IS_ERR(file))
		return file;
	file->f_path = *path;
	file->f_inode = d_inode(path->dentry);
	file->f_mapping = file->f_inode->i_mapping;
	file->f_mode |= FMODE_OPENED;
	file->f_op = fop;
	return file;
}

/* Close a file whose last user is gone. */
static void __fput(struct file *file)
{
	struct inode *inode = file->f_inode;

	might_sleep();
	if (file->f_mode & FMODE_OPENED) {
		if (file->f_op->release)
			file->f_op->release(inode, file);
		path_put(&file->f_path);
	}
	file_free(file);
}

void fput(struct file *file)
{
	if (atomic_long_dec_and_test(&file->f_count))
		__fput(file);
}

void __init files_init(void)
{
	filp_cachep = kmem_cache_create("filp", sizeof(struct file), 0,
					SLAB_HWCACHE_ALIGN | SLAB_PANIC, init_once);
	fdtable_init();
}
