/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/ktime.h>
#include <linux/export.h>
#include <linux/limits.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/stat.h>
#include <linux/uio.h>

#define O_ACCMODE 3
#define O_RDONLY 0
#define O_WRONLY 1
#define O_RDWR 2
#define O_CREAT 0100
#define O_EXCL 0200
#define O_NOCTTY 0400
#define O_TRUNC 01000
#define O_APPEND 02000
#define O_NONBLOCK 04000
#define O_DIRECT 040000
#define O_DIRECTORY 0200000
#define O_NOFOLLOW 0400000
#define O_CLOEXEC 02000000
#define AT_FDCWD -100
#define AT_SYMLINK_NOFOLLOW 0x100
#define AT_REMOVEDIR 0x200
#define AT_EACCESS 0x200
#define AT_SYMLINK_FOLLOW 0x400
#define AT_EMPTY_PATH 0x1000
#define SEEK_SET 0
#define SEEK_CUR 1
#define SEEK_END 2
#define SEEK_DATA 3
#define SEEK_HOLE 4
#define FMODE_READ 1u
#define FMODE_WRITE 2u
#define FMODE_LSEEK 4u
#define FMODE_PWRITE 0x10u
#define FMODE_OPENED 0x80000u
#define FMODE_CAN_ODIRECT 0x400000u
#define FMODE_NOT_INHERITED 0x100000u /* opened by way of the mount, which names its owners */
#define MAY_EXEC 1
#define MAY_WRITE 2
#define MAY_READ 4
#define MAY_OPEN 0x20
#define MAX_RW_COUNT 0x7ffff000UL

#define LOOKUP_FOLLOW 0x1u
#define LOOKUP_DIRECTORY 0x2u
#define LOOKUP_PARENT 0x10u
#define LOOKUP_OPEN 0x100u
#define LOOKUP_CREATE 0x200u
#define LOOKUP_EXCL 0x400u
#define LOOKUP_EMPTY 0x4000u

struct inode;
struct dentry;
struct file;
struct super_block;
struct kstat;
struct seq_file;
struct dir_context;

struct qstr {
	u32 hash, len;
	const char *name;
};
#define DNAME_INLINE_LEN 32
struct dentry {
	unsigned int d_flags;
	atomic_t d_count;
	spinlock_t d_lock;
	struct hlist_node d_hash;
	struct dentry *d_parent;
	struct qstr d_name;
	struct inode *d_inode;
	char d_iname[DNAME_INLINE_LEN];
	struct super_block *d_sb;
	struct list_head d_child, d_subdirs;
	void *d_fsdata;
	struct vfsmount *d_mounted;
};
#define DCACHE_TRANSIENT 1u /* forgotten when the last user is gone */
struct vfsmount {
	struct dentry *mnt_root;
	struct super_block *mnt_sb;
	struct vfsmount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct list_head mnt_list;
};
struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};
struct iattr {
	unsigned int ia_valid;
	umode_t ia_mode;
	kuid_t ia_uid;
	kgid_t ia_gid;
	loff_t ia_size;
	struct timespec64 ia_atime, ia_mtime;
};
#define ATTR_MODE 1
#define ATTR_UID 2
#define ATTR_GID 4
#define ATTR_SIZE 8
#define ATTR_ATIME 16
#define ATTR_MTIME 32
#define ATTR_OPEN 0x8000

struct address_space {
	struct inode *host;
	struct page **pages;
	unsigned long nr_slots, nrpages;
};
struct inode_operations {
	struct dentry *(*lookup)(struct inode *, struct dentry *, unsigned int);
	int (*permission)(struct inode *, int);
	int (*create)(struct inode *, struct dentry *, umode_t, bool);
	int (*unlink)(struct inode *, struct dentry *);
	int (*symlink)(struct inode *, struct dentry *, const char *);
	int (*mkdir)(struct inode *, struct dentry *, umode_t);
	int (*rmdir)(struct inode *, struct dentry *);
	int (*rename)(struct inode *, struct dentry *, struct inode *, struct dentry *);
	int (*link)(struct dentry *, struct inode *, struct dentry *);
	const char *(*get_link)(struct dentry *, struct inode *);
	int (*setattr)(struct dentry *, struct iattr *);
	int (*getattr)(const struct path *, struct kstat *);
};
struct kiocb {
	struct file *ki_filp;
	loff_t ki_pos;
	int ki_flags;
};
struct file_operations {
	void *owner;
	loff_t (*llseek)(struct file *, loff_t, int);
	ssize_t (*read)(struct file *, char __user *, size_t, loff_t *);
	ssize_t (*write)(struct file *, const char __user *, size_t, loff_t *);
	ssize_t (*read_iter)(struct kiocb *, struct iov_iter *);
	ssize_t (*write_iter)(struct kiocb *, struct iov_iter *);
	int (*iterate_shared)(struct file *, struct dir_context *);
	int (*open)(struct inode *, struct file *);
	int (*flush)(struct file *);
	int (*release)(struct inode *, struct file *);
	int (*fsync)(struct file *, loff_t, loff_t, int);
	long (*unlocked_ioctl)(struct file *, unsigned int, unsigned long);
	unsigned int (*poll)(struct file *, void *);
};
struct super_operations {
	struct inode *(*alloc_inode)(struct super_block *);
	void (*free_inode)(struct inode *);
	void (*evict_inode)(struct inode *);
};
struct file_system_type {
	const char *name;
	int (*fill_super)(struct super_block *);
	struct file_system_type *next;
};
struct super_block {
	const struct file_system_type *s_type;
	const struct super_operations *s_op;
	struct dentry *s_root;
	unsigned long s_blocksize, s_magic;
	dev_t s_dev;
	atomic_t s_active;
	struct list_head s_inodes;
	spinlock_t s_inode_list_lock;
};
struct inode {
	umode_t i_mode;
	unsigned int i_nlink;
	kuid_t i_uid;
	kgid_t i_gid;
	dev_t i_rdev;
	unsigned long i_ino;
	loff_t i_size;
	struct timespec64 i_atime, i_mtime, i_ctime;
	atomic_t i_count;
	const struct inode_operations *i_op;
	const struct file_operations *i_fop;
	struct super_block *i_sb;
	struct address_space i_data, *i_mapping;
	struct mutex i_rwsem;
	struct list_head i_sb_list;
	char *i_link;
	void *i_private;
};
struct file {
	struct path f_path;
	struct inode *f_inode;
	const struct file_operations *f_op;
	atomic_long_t f_count;
	unsigned int f_flags;
	fmode_t f_mode;
	struct mutex f_pos_lock;
	loff_t f_pos;
	struct address_space *f_mapping;
	void *private_data;
	unsigned long f_cookie;
	unsigned long f_look, f_mount; /* see fs/mirror.c */
	struct list_head f_pin;
};
struct fs_struct {
	int users;
	spinlock_t lock;
	struct path root, pwd;
	int umask;
};
struct filename {
	const char *name;
	int refcnt;
	char iname[];
};
struct open_flags {
	int open_flag;
	umode_t mode;
	int acc_mode;
	unsigned int lookup_flags;
};
struct open_how { u64 flags, mode, resolve; };
typedef bool (*filldir_t)(struct dir_context *, const char *, int, loff_t, u64, unsigned int);
struct dir_context {
	filldir_t actor;
	loff_t pos;
};

u32 full_name_hash(const void *salt, const char *name, unsigned int len);
static inline struct inode *file_inode(const struct file *f) { return f->f_inode; }
static inline struct inode *d_inode(const struct dentry *d) { return d->d_inode; }
static inline bool d_is_negative(const struct dentry *d) { return !d->d_inode; }
static inline bool d_really_is_positive(const struct dentry *d) { return d->d_inode != NULL; }
static inline bool d_is_dir(const struct dentry *d)
{
	return d->d_inode && S_ISDIR(d->d_inode->i_mode);
}
static inline void inode_lock(struct inode *i) { mutex_lock(&i->i_rwsem); }
static inline void inode_unlock(struct inode *i) { mutex_unlock(&i->i_rwsem); }
/* Return the LOOKUP_* of a call's AT_*. */
static inline unsigned int at_lookup_flags(int flags)
{
	return (flags & AT_SYMLINK_NOFOLLOW ? 0 : LOOKUP_FOLLOW) |
	       (flags & AT_EMPTY_PATH ? LOOKUP_EMPTY : 0);
}
static inline struct file *get_file(struct file *f)
{
	atomic_long_inc(&f->f_count);
	return f;
}
static inline struct qstr qstr_of(const char *name, u32 len)
{
	return (struct qstr){ .name = name, .len = len, .hash = full_name_hash(NULL, name, len) };
}
#define i_size_read(i) ((i)->i_size)
#define dget_parent(d) dget((d)->d_parent)

/* namei.c */
struct filename *getname(const char __user *name);
struct filename *getname_flags(const char __user *name, int flags);
struct filename *getname_kernel(const char *name);
void putname(struct filename *name);
struct file *do_filp_open(int dfd, struct filename *name, const struct open_flags *op);
int filename_lookup(int dfd, struct filename *name, unsigned int flags, struct path *path);
int kern_path(const char *name, unsigned int flags, struct path *path);
int user_path_at_empty(int dfd, const char __user *name, unsigned int flags, struct path *path);
void path_get(const struct path *path);
void path_put(const struct path *path);
int inode_permission(struct inode *inode, int mask);
int vfs_create(struct inode *dir, struct dentry *dentry, umode_t mode, bool excl);
int vfs_mkdir(struct inode *dir, struct dentry *dentry, umode_t mode);
int vfs_symlink(struct inode *dir, struct dentry *dentry, const char *oldname);
int vfs_link(struct dentry *old, struct inode *dir, struct dentry *dentry);
struct dentry *lookup_one_len_unlocked(const char *name, struct dentry *base);
/* open.c, read_write.c, ... */
long do_sys_open(int dfd, const char __user *filename, int flags, umode_t mode);
struct file *filp_open(const char *filename, int flags, umode_t mode);
int vfs_open(const struct path *path, struct file *file);
int filp_close(struct file *filp, void *id);
int do_truncate(struct dentry *dentry, loff_t length, unsigned int time_attrs, struct file *filp);
int notify_change(struct dentry *dentry, struct iattr *attr);
ssize_t vfs_read(struct file *file, char __user *buf, size_t count, loff_t *pos);
ssize_t vfs_write(struct file *file, const char __user *buf, size_t count, loff_t *pos);
ssize_t kernel_read(struct file *file, void *buf, size_t count, loff_t *pos);
ssize_t kernel_write(struct file *file, const void *buf, size_t count, loff_t *pos);
ssize_t ksys_read(unsigned int fd, char __user *buf, size_t count);
ssize_t ksys_write(unsigned int fd, const char __user *buf, size_t count);
loff_t vfs_llseek(struct file *file, loff_t offset, int whence);
loff_t generic_file_llseek(struct file *file, loff_t offset, int whence);
loff_t no_llseek(struct file *file, loff_t offset, int whence);
int vfs_fsync_range(struct file *file, loff_t start, loff_t end, int datasync);
int vfs_fsync(struct file *file, int datasync);
int iterate_dir(struct file *file, struct dir_context *ctx);
struct file *alloc_empty_file(int flags);
struct file *alloc_file(const struct path *path, int flags, const struct file_operations *fop);
struct file *pipe_end(struct file *other, int flags);
void fput(struct file *file);
ssize_t generic_file_read_iter(struct kiocb *iocb, struct iov_iter *iter);
ssize_t generic_file_write_iter(struct kiocb *iocb, struct iov_iter *from);
void truncate_inode_pages(struct address_space *mapping, loff_t lstart);
size_t _copy_to_iter(const void *addr, size_t bytes, struct iov_iter *i);
#define copy_to_iter(addr, bytes, i) _copy_to_iter(addr, bytes, i)
size_t copy_from_iter(void *addr, size_t bytes, struct iov_iter *i);
/* dcache.c, inode.c, super.c */
struct dentry *d_alloc(struct dentry *parent, const struct qstr *name);
struct dentry *d_lookup(const struct dentry *parent, const struct qstr *name);
void d_instantiate(struct dentry *dentry, struct inode *inode);
void d_add(struct dentry *dentry, struct inode *inode);
void d_delete(struct dentry *dentry);
void d_move(struct dentry *dentry, struct dentry *target);
void d_rehash(struct dentry *dentry);
struct dentry *d_make_root(struct inode *root);
static inline struct dentry *dget(struct dentry *dentry)
{
	if (dentry)
		atomic_inc(&dentry->d_count);
	return dentry;
}
void dput(struct dentry *dentry);
char *d_path(const struct path *path, char *buf, int buflen);
struct inode *new_inode(struct super_block *sb);
unsigned int get_next_ino(void);
struct inode *igrab(struct inode *inode);
void ihold(struct inode *inode);
void iput(struct inode *inode);
void inode_init_owner(struct inode *inode, const struct inode *dir, umode_t mode);
void inc_nlink(struct inode *inode);
void drop_nlink(struct inode *inode);
struct timespec64 current_time(struct inode *inode);
void touch_atime(const struct path *path);
int file_update_time(struct file *file);
int register_filesystem(struct file_system_type *fs);
struct vfsmount *vfs_kern_mount(struct file_system_type *type);
int do_mount(const char *dir, struct file_system_type *type);
struct vfsmount *lookup_mnt(const struct path *path);
extern struct vfsmount *root_mnt;
void vfs_caches_init(void);
void files_init(void);
/* libfs.c */
struct dentry *simple_lookup(struct inode *dir, struct dentry *dentry, unsigned int flags);
int simple_setattr(struct dentry *dentry, struct iattr *attr);
int simple_getattr(const struct path *path, struct kstat *stat);
int simple_link(struct dentry *old, struct inode *dir, struct dentry *dentry);
int simple_unlink(struct inode *dir, struct dentry *dentry);
int simple_rmdir(struct inode *dir, struct dentry *dentry);
int simple_rename(struct inode *od, struct dentry *o, struct inode *nd, struct dentry *n);
int noop_fsync(struct file *file, loff_t start, loff_t end, int datasync);
int simple_open(struct inode *inode, struct file *file);
int nonseekable_open(struct inode *inode, struct file *file);
loff_t default_llseek(struct file *file, loff_t offset, int whence);
loff_t noop_llseek(struct file *file, loff_t offset, int whence);
ssize_t simple_write_to_buffer(void *to, size_t available, loff_t *ppos, const void __user *from,
			       size_t count);
/* A file that is one number, as text: linux/debugfs.h has one more kind. */
int simple_attr_open(struct inode *inode, struct file *file, int (*get)(void *, u64 *),
		     int (*set)(void *, u64), const char *fmt);
int simple_attr_release(struct inode *inode, struct file *file);
ssize_t simple_attr_read(struct file *file, char __user *buf, size_t len, loff_t *ppos);
ssize_t simple_attr_write(struct file *file, const char __user *buf, size_t len, loff_t *ppos);
ssize_t simple_attr_write_signed(struct file *file, const char __user *buf, size_t len,
				 loff_t *ppos);
#define __DEFINE_ATTRIBUTE(__fops, __get, __set, __fmt, __read, __write, __llseek) \
static int __fops##_open(struct inode *inode, struct file *file) \
{ return simple_attr_open(inode, file, __get, __set, __fmt); } \
static const struct file_operations __fops = { \
	.owner = THIS_MODULE, \
	.open = __fops##_open, \
	.release = simple_attr_release, \
	.read = __read, \
	.write = __write, \
	.llseek = __llseek, \
}
#define DEFINE_SIMPLE_ATTRIBUTE(fops, get, set, fmt) \
	__DEFINE_ATTRIBUTE(fops, get, set, fmt, simple_attr_read, simple_attr_write, \
			   generic_file_llseek)
#define DEFINE_SIMPLE_ATTRIBUTE_SIGNED(fops, get, set, fmt) \
	__DEFINE_ATTRIBUTE(fops, get, set, fmt, simple_attr_read, simple_attr_write_signed, \
			   generic_file_llseek)
ssize_t simple_read_from_buffer(void __user *to, size_t count, loff_t *ppos, const void *from,
				size_t avail);
void generic_fillattr(struct inode *inode, struct kstat *stat);
int vfs_getattr(const struct path *path, struct kstat *stat);
#ifndef MODULE
DEFINE_GUARD(inode, struct inode, inode_lock(it), inode_unlock(it))
DEFINE_GUARD(path, const struct path, , path_put(it))
DEFINE_FREE(fput, struct file)
#endif
extern const struct file_operations simple_dir_operations;
extern const struct inode_operations simple_symlink_inode_operations, simple_dir_inode_operations;
