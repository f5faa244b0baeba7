// SPDX-License-Identifier: GPL-2.0-or-later
/* Inodes. */
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/string.h>

static struct kmem_cache *inode_cachep;
static long nr_inodes;

/* Called for each object of a new slab; the file-table cache has one of its own. */
static void init_once(void *foo)
{
	struct inode *inode = foo;

	memset(inode, 0, sizeof(*inode));
	INIT_LIST_HEAD(&inode->i_sb_list);
}

static noinline int inode_init_always(struct super_block *sb, struct inode *inode)
{
	memset(inode, 0, sizeof(*inode));
	inode->i_sb = sb;
	inode->i_nlink = 1;
	inode->i_mapping = &inode->i_data;
	inode->i_data.host = inode;
	atomic_set(&inode->i_count, 1);
	mutex_init(&inode->i_rwsem);
	INIT_LIST_HEAD(&inode->i_sb_list);
	return 0;
}

static noinline struct inode *alloc_inode(struct super_block *sb)
{
	struct inode *inode;

	if (sb->s_op && sb->s_op->alloc_inode)
		inode = sb->s_op->alloc_inode(sb);
	else
		inode = kmem_cache_alloc(inode_cachep, GFP_KERNEL);
	if (!inode)
		return NULL;
	inode_init_always(sb, inode);
	nr_inodes++;
	return inode;
}

static void inode_sb_list_add(struct inode *inode)
{
	spin_lock(&inode->i_sb->s_inode_list_lock);
	list_add(&inode->i_sb_list, &inode->i_sb->s_inodes);
	spin_unlock(&inode->i_sb->s_inode_list_lock);
}

static noinline void inode_sb_list_del(struct inode *inode)
{
	spin_lock(&inode->i_sb->s_inode_list_lock);
	list_del_init(&inode->i_sb_list);
	spin_unlock(&inode->i_sb->s_inode_list_lock);
}

struct inode *new_inode(struct super_block *sb)
{
	struct inode *inode = alloc_inode(sb);

	if (inode)
		inode_sb_list_add(inode);
	return inode;
}

unsigned int get_next_ino(void)
{
	static unsigned int last_ino;

	return ++last_ino;
}

void ihold(struct inode *inode)
{
	WARN_ON(atomic_inc_return(&inode->i_count) < 2);
}

struct inode *igrab(struct inode *inode)
{
	return atomic_inc_not_zero(&inode->i_count) ? inode : NULL;
}

static void destroy_inode(struct inode *inode)
{
	nr_inodes--;
	if (inode->i_sb->s_op && inode->i_sb->s_op->free_inode)
		inode->i_sb->s_op->free_inode(inode);
	else
		kmem_cache_free(inode_cachep, inode);
}

static void evict(struct inode *inode)
{
	inode_sb_list_del(inode);
	if (inode->i_sb->s_op && inode->i_sb->s_op->evict_inode)
		inode->i_sb->s_op->evict_inode(inode);
	truncate_inode_pages(&inode->i_data, 0);
	kfree(inode->i_data.pages);
	kfree(inode->i_link);
	destroy_inode(inode);
}

static void iput_final(struct inode *inode)
{
	evict(inode);
}

void iput(struct inode *inode)
{
	if (inode && atomic_dec_and_test(&inode->i_count))
		iput_final(inode);
}

void inode_init_owner(struct inode *inode, const struct inode *dir, umode_t mode)
{
	inode->i_uid = current->cred->fsuid;
	inode->i_gid = current->cred->fsgid;
	inode->i_mode = mode;
	inode->i_atime = inode->i_mtime = inode->i_ctime = current_time(inode);
}

void inc_nlink(struct inode *inode)
{
	inode->i_nlink++;
}

void drop_nlink(struct inode *inode)
{
	WARN_ON(inode->i_nlink == 0);
	inode->i_nlink--;
}

noinline struct timespec64 current_time(struct inode *inode)
{
	struct timespec64 now;

	ktime_get_real_ts64(&now);
	return now;
}

static noinline bool atime_needs_update(const struct path *path, struct inode *inode)
{
	return inode->i_atime.tv_sec <= inode->i_mtime.tv_sec;
}

void touch_atime(const struct path *path)
{
	struct inode *inode = d_inode(path->dentry);

	if (atime_needs_update(path, inode))
		inode->i_atime = current_time(inode);
}

int file_update_time(struct file *file)
{
	struct inode *inode = file_inode(file);

	inode->i_mtime = inode->i_ctime = current_time(inode);
	return 0;
}

void __init inode_init(void)
{
	inode_cachep =
		kmem_cache_create("inode_cache", sizeof(struct inode), 8, SLAB_PANIC, init_once);
}
