// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Files of modules in debugfs. Their directories and files are real here: functions of the module,
 * or of this file, answer what a file is asked. Python is told of each, for the mount shows it.
 * All other names below /sys/kernel/debug are those of fs/hostfs.c.
 */
#include <kpfs/control.h>
#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/debugfs.h>
#include <linux/hostfs.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>

#undef pr_fmt
#define pr_fmt(fmt) "debugfs: " fmt

/* A file: the functions that serve it, and how many calls of them run. */
struct debugfs_fsdata {
	const struct file_operations *real_fops;
	atomic_t refs;         /* the entry, and each open file */
	atomic_t active_users; /* calls of real_fops; and 1 while there is the entry */
	struct completion active_users_drained;
};
static DEFINE_MUTEX(debugfs_mutex);

static void fsdata_put(struct debugfs_fsdata *fsd)
{
	if (atomic_dec_and_test(&fsd->refs))
		kfree(fsd);
}

static bool fsdata_enter(struct debugfs_fsdata *fsd)
{
	return atomic_inc_not_zero(&fsd->active_users);
}

static void fsdata_leave(struct debugfs_fsdata *fsd)
{
	if (atomic_dec_and_test(&fsd->active_users))
		complete(&fsd->active_users_drained);
}

static struct debugfs_fsdata *fsdata_of(struct file *filp)
{
	return filp->f_path.dentry->d_fsdata;
}

/* ---- an open file */
static int module_file_open(struct inode *inode, struct file *filp)
{
	struct debugfs_fsdata *fsd = fsdata_of(filp);
	int ret;

	if (!fsd || !fsdata_enter(fsd))
		return -ENOENT;
	atomic_inc(&fsd->refs);
	ret = try_module_get(fsd->real_fops->owner) || !fsd->real_fops->owner ? 0 : -ENXIO;
	if (!ret && fsd->real_fops->open) {
		ret = fsd->real_fops->open(inode, filp);
		if (ret)
			module_put(fsd->real_fops->owner);
	}
	fsdata_leave(fsd);
	if (ret)
		fsdata_put(fsd);
	/* a process of the host: its children find the file by the mount, and not here */
	if (current->flags & PF_HOST)
		filp->f_mode |= FMODE_NOT_INHERITED;
	return ret;
}

/*
 * Call the module's function and return its result; absent if it has none, -EIO if the file is
 * gone.
 */
#define call_real(filp, op, absent, ...) ({ \
	struct debugfs_fsdata *fsd = fsdata_of(filp); \
	long ret = -EIO; \
	if (fsdata_enter(fsd)) { \
		ret = fsd->real_fops->op ? fsd->real_fops->op(filp, __VA_ARGS__) : absent; \
		fsdata_leave(fsd); \
	} \
	ret; })

static ssize_t module_file_read(struct file *filp, char __user *buf, size_t size, loff_t *ppos)
{
	return call_real(filp, read, -EINVAL, buf, size, ppos);
}

static ssize_t module_file_write(struct file *filp, const char __user *buf, size_t size,
				 loff_t *ppos)
{
	return call_real(filp, write, -EINVAL, buf, size, ppos);
}

static loff_t module_file_llseek(struct file *filp, loff_t offset, int whence)
{
	return call_real(filp, llseek, -ESPIPE, offset, whence);
}

/* Close a file, by the module's function even if the file is gone: it frees what open() made. */
static int module_file_release(struct inode *inode, struct file *filp)
{
	struct debugfs_fsdata *fsd = fsdata_of(filp);
	const struct file_operations *fops = fsd->real_fops;
	int ret = 0;

	if (fops->release)
		ret = fops->release(inode, filp);
	module_put(fops->owner);
	fsdata_put(fsd);
	return ret;
}

static const struct file_operations module_file_operations = {
	.open = module_file_open,
	.read = module_file_read,
	.write = module_file_write,
	.llseek = module_file_llseek,
	.release = module_file_release,
};

/* ---- making entries */
/* Return true for a name of the mount itself, which fs/hostfs.c finds. */
static bool is_of_mount(const char *name, struct dentry *parent)
{
	static const char *const names[] = { "kprobes", "tracing", "kpfs" };

	return parent == debugfs_sb->s_root && match_string(names, ARRAY_SIZE(names), name) >= 0;
}

/* Return a new entry without an inode, or an error. */
static noinline struct dentry *start_creating(const char *name, struct dentry *parent)
{
	struct qstr this = qstr_of(name, strlen(name));
	struct dentry *dentry = d_lookup(parent, &this);
	bool is_dir = !dentry || d_is_dir(dentry);

	if (dentry || is_of_mount(name, parent)) {
		pr_err("%s '%s' %s '%s' already present!\n", is_dir ? "Directory" : "File", name,
		       is_dir ? "with parent" : "in directory", parent->d_name.name);
		dput(dentry);
		return ERR_PTR(-EEXIST);
	}
	if (this.len > NAME_MAX)
		return ERR_PTR(-ENAMETOOLONG);
	dentry = d_alloc(parent, &this);
	return dentry ?: ERR_PTR(-ENOMEM);
}

static noinline struct dentry *create(const char *name, umode_t mode, struct dentry *parent,
				      void *data, struct debugfs_fsdata *fsd)
{
	struct kpfs_debugfs told = { .parent = parent, .mode = mode, .name = name };
	struct inode *inode;
	struct dentry *dentry;

	if (!parent)
		parent = debugfs_sb->s_root;
	guard(mutex)(&debugfs_mutex);
	dentry = start_creating(name, parent);
	if (IS_ERR(dentry))
		return dentry;
	inode = host_get_inode(debugfs_sb, mode, &module_file_operations,
			       &simple_dir_inode_operations);
	if (!inode) {
		dput(dentry);
		return ERR_PTR(-ENOMEM);
	}
	inode->i_private = data;
	dentry->d_fsdata = fsd;
	d_add(dentry, inode);
	told.dentry = dentry;
	kpfs_control(CTL_DEBUGFS_ADD, (unsigned long)&told, 0);
	return dentry;
}

struct dentry *debugfs_create_dir(const char *name, struct dentry *parent)
{
	return IS_ERR(parent) ? parent : create(name, S_IFDIR | 0755, parent, NULL, NULL);
}

noinline struct dentry *debugfs_create_file(const char *name, umode_t mode, struct dentry *parent,
					    void *data, const struct file_operations *fops)
{
	struct debugfs_fsdata *fsd;
	struct dentry *dentry;

	if (IS_ERR(parent))
		return parent;
	fsd = kzalloc(sizeof(*fsd), GFP_KERNEL);
	if (!fsd)
		return ERR_PTR(-ENOMEM);
	fsd->real_fops = fops;
	atomic_set(&fsd->refs, 1);
	atomic_set(&fsd->active_users, 1);
	init_completion(&fsd->active_users_drained);
	dentry = create(name, S_IFREG | (mode & S_IALLUGO), parent, data, fsd);
	if (IS_ERR(dentry))
		kfree(fsd);
	return dentry;
}

noinline struct dentry *debugfs_create_file_unsafe(const char *name, umode_t mode,
						   struct dentry *parent, void *data,
						   const struct file_operations *fops)
{
	return debugfs_create_file(name, mode, parent, data, fops);
}

/* Return an entry with a reference for the caller, or NULL. */
struct dentry *debugfs_lookup(const char *name, struct dentry *parent)
{
	struct qstr this = qstr_of(name, strlen(name));
	struct dentry *dentry;

	if (IS_ERR_OR_NULL(name) || IS_ERR(parent))
		return NULL;
	dentry = d_lookup(parent ? parent : debugfs_sb->s_root, &this);
	if (dentry && d_is_negative(dentry)) {
		dput(dentry);
		return NULL;
	}
	return dentry;
}

/* ---- and removing them */
static void remove_one(struct dentry *dentry)
{
	struct debugfs_fsdata *fsd = dentry->d_fsdata;

	d_delete(dentry);
	kpfs_control(CTL_DEBUGFS_REMOVE, (unsigned long)dentry, 0);
	if (fsd) { /* no call of the module's functions begins from now on; those in work end */
		if (!atomic_dec_and_test(&fsd->active_users))
			wait_for_completion(&fsd->active_users_drained);
		fsdata_put(fsd);
	}
	dput(dentry);
}

static struct dentry *first_entry_below(struct dentry *dir)
{
	struct dentry *child;

	list_for_each_entry(child, &dir->d_subdirs, d_child)
		if (d_really_is_positive(child) && !hlist_unhashed(&child->d_hash))
			return child;
	return NULL;
}

/* Remove an entry with all that is below it, the lowest first. */
void debugfs_remove(struct dentry *dentry)
{
	struct dentry *at, *below, *parent;

	if (IS_ERR_OR_NULL(dentry))
		return;
	guard(mutex)(&debugfs_mutex);
	for (at = dentry;; at = parent) {
		while ((below = first_entry_below(at)))
			at = below;
		parent = at->d_parent;
		remove_one(at);
		if (at == dentry)
			return;
	}
}

/* ---- files that are a variable */
ssize_t debugfs_attr_read(struct file *file, char __user *buf, size_t len, loff_t *ppos)
{
	return simple_attr_read(file, buf, len, ppos);
}

ssize_t debugfs_attr_write(struct file *file, const char __user *buf, size_t len, loff_t *ppos)
{
	return simple_attr_write(file, buf, len, ppos);
}

/* Create a file with the functions for its mode: none for reading or writing that it forbids. */
static struct dentry *create_mode(const char *name, umode_t mode, struct dentry *parent,
				  void *value, const struct file_operations fops[3])
{
	int n = mode & 0444 ? mode & 0222 ? 0 : 1 : 2;

	return debugfs_create_file(name, mode, parent, value, &fops[n]);
}

#define GET_AND_SET(type, load, store) \
static int type##_get(void *data, u64 *val) \
{ \
	type *p = data; \
	*val = load; \
	return 0; \
} \
static int type##_set(void *data, u64 val) \
{ \
	type *p = data; \
	store; \
	return 0; \
}
GET_AND_SET(u8, *p, *p = val)
GET_AND_SET(u16, *p, *p = val)
GET_AND_SET(u32, *p, *p = val)
GET_AND_SET(u64, *p, *p = val)
GET_AND_SET(atomic_t, (s64)atomic_read(p), atomic_set(p, val))

enum number_kind { U8, U16, U32, U64, X8, X16, X32, X64, ATOMIC, NR_KINDS };
static const struct {
	int (*get)(void *, u64 *);
	int (*set)(void *, u64);
	const char *fmt;
} number_kinds[NR_KINDS] = {
	[U8] = { u8_get, u8_set, "%llu\n" },
	[U16] = { u16_get, u16_set, "%llu\n" },
	[U32] = { u32_get, u32_set, "%llu\n" },
	[U64] = { u64_get, u64_set, "%llu\n" },
	[X8] = { u8_get, u8_set, "0x%02llx\n" },
	[X16] = { u16_get, u16_set, "0x%04llx\n" },
	[X32] = { u32_get, u32_set, "0x%08llx\n" },
	[X64] = { u64_get, u64_set, "0x%016llx\n" },
	[ATOMIC] = { atomic_t_get, atomic_t_set, "%lld\n" },
};
static const struct file_operations number_fops[NR_KINDS][3];

static int number_open(struct inode *inode, struct file *file)
{
	long n = fsdata_of(file)->real_fops - number_fops[0], kind = n / 3, way = n % 3;

	return simple_attr_open(inode, file, way == 2 ? NULL : number_kinds[kind].get,
				way == 1 ? NULL : number_kinds[kind].set, number_kinds[kind].fmt);
}

#define NUMBER_FOPS(writes) { \
	.open = number_open, \
	.release = simple_attr_release, \
	.read = simple_attr_read, \
	.write = writes, \
	.llseek = no_llseek, \
}
static const struct file_operations number_fops[NR_KINDS][3] = {
	[0 ... NR_KINDS - 2] = { [0 ... 2] = NUMBER_FOPS(simple_attr_write) },
	[ATOMIC] = { [0 ... 2] = NUMBER_FOPS(simple_attr_write_signed) },
};
#define NUMBER(suffix, type, kind) \
__DEBUGFS_CREATE(suffix, type) { return create_mode(name, mode, parent, value, number_fops[kind]); }
NUMBER(u8, u8, U8)
NUMBER(u16, u16, U16)
NUMBER(u32, u32, U32)
NUMBER(u64, u64, U64)
NUMBER(ulong, unsigned long, U64)
NUMBER(x8, u8, X8)
NUMBER(x16, u16, X16)
NUMBER(x32, u32, X32)
NUMBER(x64, u64, X64)
NUMBER(size_t, size_t, U64)
NUMBER(atomic_t, atomic_t, ATOMIC)

/* ---- true or false */
static ssize_t read_bool(struct file *file, char __user *buf, size_t count, loff_t *ppos)
{
	const char *s = *(bool *)file->private_data ? "Y\n" : "N\n";

	return simple_read_from_buffer(buf, count, ppos, s, 2);
}

/* Set a variable; any word that is neither true nor false is accepted and changes nothing. */
static ssize_t write_bool(struct file *file, const char __user *buf, size_t count, loff_t *ppos)
{
	bool value;

	if (!kstrtobool_from_user(buf, count, &value))
		*(bool *)file->private_data = value;
	return count;
}

static const struct file_operations bool_fops[] = {
	{ .open = simple_open, .read = read_bool, .write = write_bool, .llseek = default_llseek },
	{ .open = simple_open, .read = read_bool, .llseek = default_llseek },
	{ .open = simple_open, .write = write_bool, .llseek = default_llseek },
};
__DEBUGFS_CREATE(bool, bool)
{
	return create_mode(name, mode, parent, value, bool_fops);
}

/* ---- bytes, and an array */
static ssize_t read_blob(struct file *file, char __user *buf, size_t count, loff_t *ppos)
{
	struct debugfs_blob_wrapper *blob = file->private_data;

	return simple_read_from_buffer(buf, count, ppos, blob->data, blob->size);
}

static const struct file_operations blob_fops = {
	.open = simple_open,
	.read = read_blob,
	.llseek = default_llseek,
};

struct dentry *debugfs_create_blob(const char *name, umode_t mode, struct dentry *parent,
				   struct debugfs_blob_wrapper *blob)
{
	return debugfs_create_file_unsafe(name, mode & 0444, parent, blob, &blob_fops);
}

/* Open a file with the numbers as they are then. */
static int u32_array_open(struct inode *inode, struct file *file)
{
	struct debugfs_u32_array *data = inode->i_private;
	u32 n = data->n_elements, i;
	char *buf = kmalloc(11 * n + 1, GFP_KERNEL), *p = buf;

	if (!buf)
		return -ENOMEM;
	*p = 0;
	for (i = 0; i < n; i++)
		p += sprintf(p, "%u%c", data->array[i], i + 1 < n ? ' ' : '\n');
	file->private_data = buf;
	return nonseekable_open(inode, file);
}

static ssize_t u32_array_read(struct file *file, char __user *buf, size_t len, loff_t *ppos)
{
	char *s = file->private_data;

	return simple_read_from_buffer(buf, len, ppos, s, strlen(s));
}

static int u32_array_release(struct inode *inode, struct file *file)
{
	kfree(file->private_data);
	return 0;
}

static const struct file_operations u32_array_fops = {
	.open = u32_array_open,
	.release = u32_array_release,
	.read = u32_array_read,
	.llseek = no_llseek,
};
__DEBUGFS_CREATE(u32_array, struct debugfs_u32_array)
{
	return debugfs_create_file_unsafe(name, mode, parent, value, &u32_array_fops);
}
