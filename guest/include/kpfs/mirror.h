/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef KPFS_MIRROR_H
#define KPFS_MIRROR_H
/* A system call of the host that a task makes again: see guest/src/fs/mirror.c. */

#define MIRROR_NAMES 2
#define MIRROR_NEW 2
#define MIRROR_MAX_FD 4096
#define MIRROR_BUSY (-1024) /* a file of the mount is where a new one is to be */

/* A call to be made; kpfs/mirror/plan.c fills it in. */
struct mirror_call {
	unsigned long nr, args[6];
	unsigned long count; /* bytes to read or write; where an lseek begins, or the file ends */
	unsigned long cwd; /* address of the working directory's path; 0: no path is relative to it */
	unsigned long paths; /* the call has a path */
	unsigned long link;  /* address of what the symbolic link that it reads has; 0: none */
	unsigned long mount; /* the descriptor that it closes is of a file of the mount */
	/* where the part of its strings that the process has not touched yet begins and ends in the user memory */
	unsigned long untouched_from, untouched_to;
	unsigned long wait;   /* nothing is to be done if that gives MIRROR_BUSY */
	int fd[MIRROR_NAMES]; /* descriptors that it uses, -1: none, and what they are */
	unsigned int fd_mode[MIRROR_NAMES];
	int spare_fd;           /* one more that it replaces or closes, -1: none */
	int new_fd[MIRROR_NEW]; /* those that it will make, below MIRROR_MAX_FD, -1: none */
	/* the files that its paths name: components, if all of them are walked, and the mode, 0: there is none */
	unsigned int components[MIRROR_NAMES], name_mode[MIRROR_NAMES];
};
#endif
