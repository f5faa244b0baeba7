/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/ktime.h>
#include <linux/types.h>
#define S_IFMT 00170000
#define S_IFSOCK 0140000
#define S_IFLNK 0120000
#define S_IFREG 0100000
#define S_IFDIR 0040000
#define S_IFCHR 0020000
#define S_IFIFO 0010000
#define S_ISLNK(m) (((m) & S_IFMT) == S_IFLNK)
#define S_ISREG(m) (((m) & S_IFMT) == S_IFREG)
#define S_ISDIR(m) (((m) & S_IFMT) == S_IFDIR)
#define S_ISCHR(m) (((m) & S_IFMT) == S_IFCHR)
#define S_ISFIFO(m) (((m) & S_IFMT) == S_IFIFO)
#define S_IRUSR 00400
#define S_IWUSR 00200
#define S_IXUSR 00100
#define S_IRUGO 00444
#define S_IALLUGO 07777
struct kstat {
	umode_t mode;
	unsigned int nlink, blksize;
	kuid_t uid;
	kgid_t gid;
	dev_t dev, rdev;
	u64 ino;
	loff_t size;
	struct timespec64 atime, mtime, ctime;
	u64 blocks;
};
