// SPDX-License-Identifier: GPL-2.0-or-later
/* File systems and where they are mounted. */
#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/seq_file.h>
#include <linux/string.h>

static struct file_system_type *file_systems;
static LIST_HEAD(mounts);
static DEFINE_MUTEX(namespace_sem);
struct vfsmount *root_mnt;
int init_ramfs_fs(void);
extern struct file_system_type ramfs_fs_type;
extern struct fs_struct init_fs;

static struct file_system_type **find_filesystem(const char *name, unsigned int len)
{
	struct file_system_type **p;

	for (p = &file_systems; *p; p = &(*p)->next)
		if (strlen((*p)->name) == len && !strncmp((*p)->name, name, len))
			break;
	return p;
}

int register_filesystem(struct file_system_type *fs)
{
	struct file_system_type **p = find_filesystem(fs->name, strlen(fs->name));

	if (*p)
		return -EBUSY;
	*p = fs;
	return 0;
}

static noinline struct super_block *alloc_super(struct file_system_type *type)
{
	static dev_t unnamed_dev;
	struct super_block *s = kzalloc(sizeof(*s), GFP_USER);

	if (!s)
		return NULL;
	s->s_type = type;
	s->s_blocksize = PAGE_SIZE;
	s->s_dev = ++unnamed_dev;
	atomic_set(&s->s_active, 1);
	INIT_LIST_HEAD(&s->s_inodes);
	return s;
}

static noinline void destroy_super(struct super_block *s)
{
	kfree(s);
}

struct vfsmount *vfs_kern_mount(struct file_system_type *type)
{
	struct vfsmount *mnt = kzalloc(sizeof(*mnt), GFP_KERNEL);
	struct super_block *sb = alloc_super(type);
	int err;

	if (!mnt || !sb)
		return ERR_PTR(-ENOMEM);
	err = type->fill_super(sb);
	if (err) {
		destroy_super(sb);
		kfree(mnt);
		return ERR_PTR(err);
	}
	mnt->mnt_sb = sb;
	mnt->mnt_root = dget(sb->s_root);
	return mnt;
}

static void attach_mnt(struct vfsmount *mnt, const struct path *where)
{
	mnt->mnt_parent = where->mnt;
	mnt->mnt_mountpoint = dget(where->dentry);
	where->dentry->d_mounted = mnt;
	list_add_tail(&mnt->mnt_list, &mounts);
}

/* Return what is mounted on a path. */
noinline struct vfsmount *lookup_mnt(const struct path *path)
{
	return path->dentry->d_mounted;
}

static noinline int path_mount(const struct path *path, struct file_system_type *type)
{
	struct vfsmount *mnt;

	if (lookup_mnt(path))
		return -EBUSY;
	mnt = vfs_kern_mount(type);
	if (IS_ERR(mnt))
		return PTR_ERR(mnt);
	attach_mnt(mnt, path);
	return 0;
}

int do_mount(const char *dir, struct file_system_type *type)
{
	struct path path;
	int err;

	guard(mutex)(&namespace_sem);
	err = kern_path(dir, LOOKUP_FOLLOW | LOOKUP_DIRECTORY, &path);
	if (err)
		return err;
	guard(path)(&path);
	return path_mount(&path, type);
}

static void *m_start(struct seq_file *m, loff_t *pos)
{
	return seq_list_start(&mounts, *pos);
}

static void *m_next(struct seq_file *m, void *v, loff_t *pos)
{
	return seq_list_next(v, &mounts, pos);
}

static void m_stop(struct seq_file *m, void *v) {}

static int m_show(struct seq_file *m, void *v)
{
	struct vfsmount *mnt = list_entry(v, struct vfsmount, mnt_list);
	struct path path = { mnt, mnt->mnt_root };
	const char *name = mnt->mnt_sb->s_type->name;

	seq_printf(m, "%s ", name);
	seq_path(m, &path);
	seq_printf(m, " %s rw 0 0\n", name);
	return 0;
}

const struct seq_operations mounts_op = {
	.start = m_start,
	.next = m_next,
	.stop = m_stop,
	.show = m_show,
};

int filesystems_show(struct seq_file *m, void *v)
{
	struct file_system_type *fs;

	for (fs = file_systems; fs; fs = fs->next)
		seq_printf(m, "nodev\t%s\n", fs->name);
	return 0;
}

static void __init init_mount_tree(void)
{
	root_mnt = vfs_kern_mount(&ramfs_fs_type);
	if (IS_ERR(root_mnt))
		panic("Can't create rootfs");
	list_add_tail(&root_mnt->mnt_list, &mounts);
	init_fs.root = init_fs.pwd = (struct path){ root_mnt, root_mnt->mnt_root };
	path_get(&init_fs.root);
	path_get(&init_fs.pwd);
}

void __init mnt_init(void)
{
	register_filesystem(&ramfs_fs_type);
	init_mount_tree();
}
