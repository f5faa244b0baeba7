// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Directory entries. There is no cache of unused ones: a ramfs keeps a reference to each
 * of its entries, all others go with their last user.
 */
#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/string.h>

#define D_HASHBITS 8
static struct hlist_head dentry_hashtable[1 << D_HASHBITS];
static DEFINE_SPINLOCK(dcache_lock);
static struct kmem_cache *dentry_cache;
static long nr_dentry;

u32 full_name_hash(const void *salt, const char *name, unsigned int len)
{
	u32 hash = (u32)(unsigned long)salt;

	while (len--)
		hash = (hash ^ (u8)*name++) * 0x01000193u;
	return hash;
}

static inline struct hlist_head *d_hash(u32 hash)
{
	return &dentry_hashtable[(hash * 0x9e3779b9u) >> (32 - D_HASHBITS)];
}

static inline bool dentry_cmp(const struct dentry *dentry, const struct qstr *name)
{
	return dentry->d_name.len == name->len &&
	       !memcmp(dentry->d_name.name, name->name, name->len);
}

static noinline struct dentry *__d_alloc(struct super_block *sb, const struct qstr *name)
{
	struct dentry *dentry = kmem_cache_zalloc(dentry_cache, GFP_KERNEL);
	char *dname;

	if (!dentry)
		return NULL;
	dname = dentry->d_iname;
	if (name->len >= DNAME_INLINE_LEN)
		dname = kmalloc(name->len + 1, GFP_KERNEL);
	if (!dname) {
		kmem_cache_free(dentry_cache, dentry);
		return NULL;
	}
	memcpy(dname, name->name, name->len);
	dname[name->len] = 0;
	dentry->d_name = (struct qstr){ .hash = name->hash, .len = name->len, .name = dname };
	dentry->d_sb = sb;
	dentry->d_parent = dentry;
	atomic_set(&dentry->d_count, 1);
	INIT_LIST_HEAD(&dentry->d_child);
	INIT_LIST_HEAD(&dentry->d_subdirs);
	nr_dentry++;
	return dentry;
}

struct dentry *d_alloc(struct dentry *parent, const struct qstr *name)
{
	struct dentry *dentry = __d_alloc(parent->d_sb, name);

	if (!dentry)
		return NULL;
	guard(spinlock)(&dcache_lock);
	dentry->d_parent = dget(parent);
	list_add_tail(&dentry->d_child, &parent->d_subdirs);
	return dentry;
}

struct dentry *d_make_root(struct inode *root)
{
	static const struct qstr name = { .name = "/", .len = 1 };
	struct dentry *res = root ? __d_alloc(root->i_sb, &name) : NULL;

	if (res)
		d_instantiate(res, root);
	return res;
}

/* Give an entry an inode, with the caller's reference to it. */
noinline void d_instantiate(struct dentry *dentry, struct inode *inode)
{
	guard(spinlock)(&dentry->d_lock);
	dentry->d_inode = inode;
}

noinline void d_rehash(struct dentry *dentry)
{
	guard(spinlock)(&dcache_lock);
	hlist_add_head(&dentry->d_hash, d_hash(dentry->d_name.hash));
}

static noinline void __d_drop(struct dentry *dentry)
{
	hlist_del_init(&dentry->d_hash);
}

noinline void d_drop(struct dentry *dentry)
{
	guard(spinlock)(&dcache_lock);
	__d_drop(dentry);
}

void d_add(struct dentry *dentry, struct inode *inode)
{
	if (inode)
		d_instantiate(dentry, inode);
	d_rehash(dentry);
}

static noinline struct dentry *__d_lookup(const struct dentry *parent, const struct qstr *name)
{
	struct dentry *dentry;

	hlist_for_each_entry(dentry, d_hash(name->hash), d_hash) {
		if (dentry->d_name.hash != name->hash || dentry->d_parent != parent)
			continue;
		if (dentry_cmp(dentry, name))
			return dget(dentry);
	}
	return NULL;
}

struct dentry *d_lookup(const struct dentry *parent, const struct qstr *name)
{
	guard(spinlock)(&dcache_lock);
	return __d_lookup(parent, name);
}

static void dentry_unlink_inode(struct dentry *dentry)
{
	struct inode *inode = dentry->d_inode;

	dentry->d_inode = NULL;
	if (inode)
		iput(inode);
}

static void dentry_free(struct dentry *dentry)
{
	if (dentry->d_name.name != dentry->d_iname)
		kfree(dentry->d_name.name);
	nr_dentry--;
	kmem_cache_free(dentry_cache, dentry);
}

static noinline struct dentry *__dentry_kill(struct dentry *dentry)
{
	struct dentry *parent = dentry->d_parent;

	spin_lock(&dcache_lock);
	__d_drop(dentry);
	list_del_init(&dentry->d_child);
	spin_unlock(&dcache_lock);
	dentry_unlink_inode(dentry);
	dentry_free(dentry);
	return parent == dentry ? NULL : parent;
}

void dput(struct dentry *dentry)
{
	while (dentry) {
		if (!atomic_dec_and_test(&dentry->d_count))
			return;
		dentry = __dentry_kill(dentry);
	}
}

/* Forget an entry whose file is gone; its name may be used again. */
void d_delete(struct dentry *dentry)
{
	d_drop(dentry);
}

static void copy_name(struct dentry *dentry, struct dentry *target)
{
	swap(dentry->d_name.hash, target->d_name.hash);
	if (dentry->d_name.name != dentry->d_iname || target->d_name.name != target->d_iname) {
		char *a = kstrdup(dentry->d_name.name, GFP_KERNEL),
		     *b = kstrdup(target->d_name.name, GFP_KERNEL);

		if (dentry->d_name.name != dentry->d_iname)
			kfree(dentry->d_name.name);
		if (target->d_name.name != target->d_iname)
			kfree(target->d_name.name);
		dentry->d_name.name = b;
		target->d_name.name = a;
	} else {
		char tmp[DNAME_INLINE_LEN];

		memcpy(tmp, dentry->d_iname, sizeof(tmp));
		memcpy(dentry->d_iname, target->d_iname, sizeof(tmp));
		memcpy(target->d_iname, tmp, sizeof(tmp));
	}
	swap(dentry->d_name.len, target->d_name.len);
}

static noinline void __d_move(struct dentry *dentry, struct dentry *target)
{
	__d_drop(dentry);
	__d_drop(target);
	copy_name(dentry, target);
	swap(dentry->d_parent, target->d_parent);
	list_move_tail(&dentry->d_child, &dentry->d_parent->d_subdirs);
	list_move_tail(&target->d_child, &target->d_parent->d_subdirs);
	hlist_add_head(&dentry->d_hash, d_hash(dentry->d_name.hash));
}

/* Give dentry the name and place of target, which is left without a name. */
void d_move(struct dentry *dentry, struct dentry *target)
{
	guard(spinlock)(&dcache_lock);
	__d_move(dentry, target);
}

static noinline char *prepend_name(char *p, char *buf, const struct qstr *name)
{
	if (p - buf < (long)name->len + 1)
		return NULL;
	p -= name->len;
	memcpy(p, name->name, name->len);
	*--p = '/';
	return p;
}

static noinline char *prepend_path(const struct path *path, char *buf, char *p)
{
	const struct dentry *dentry = path->dentry;
	struct vfsmount *mnt = path->mnt;

	for (;;) {
		if (dentry == mnt->mnt_root) {
			if (!mnt->mnt_parent)
				return p;
			dentry = mnt->mnt_mountpoint;
			mnt = mnt->mnt_parent;
			continue;
		}
		p = prepend_name(p, buf, &dentry->d_name);
		if (!p)
			return NULL;
		dentry = dentry->d_parent;
	}
}

char *d_path(const struct path *path, char *buf, int buflen)
{
	char *end = buf + buflen - 1, *p;

	*end = 0;
	p = prepend_path(path, buf, end);
	if (!p)
		return ERR_PTR(-ENAMETOOLONG);
	if (p == end)
		*--p = '/';
	return p;
}

void inode_init(void);
void mnt_init(void);

void __init vfs_caches_init(void)
{
	dentry_cache = KMEM_CACHE(dentry, SLAB_RECLAIM_ACCOUNT | SLAB_PANIC);
	inode_init();
	files_init();
	mnt_init();
}
