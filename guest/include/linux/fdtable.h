/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/sched.h>

struct file;
struct path;
#define NR_OPEN_DEFAULT 64
struct fdtable {
	unsigned int max_fds;
	struct file **fd;
	unsigned long *open_fds;
	unsigned long *close_on_exec;
};
struct files_struct {
	atomic_t count;
	spinlock_t file_lock;
	struct fdtable fdt;
	unsigned int next_fd;
	struct file *fd_array[NR_OPEN_DEFAULT];
	unsigned long open_fds_init[1], close_on_exec_init[1];
	unsigned long id;               /* no other table ever has it */
	unsigned long mirrored, walked; /* see fs/mirror.c */
};
extern struct files_struct init_files;
struct files_struct *dup_fd(struct files_struct *oldf);
void put_files_struct(struct files_struct *files);
int unshare_files(void);
int alloc_fd(unsigned int start, unsigned int flags);
int get_unused_fd_flags(unsigned int flags);
void put_unused_fd(unsigned int fd);
void fd_install(unsigned int fd, struct file *file);
struct file *fget(unsigned int fd);
int close_fd(unsigned int fd);
void do_close_on_exec(struct files_struct *files);
struct fs_struct *copy_fs_struct(struct fs_struct *old);
void dec_nr_threads(void);
void mm_release(struct task_struct *tsk);
void exit_mm(struct task_struct *tsk);
