/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* What a system call of the host needs to be made again, and what is found out for it. */
#include "../../guest/include/kpfs/mirror.h"

#include <stdbool.h>
#include <stdint.h>

#define PLAN_PATH_MAX 4096
#define PLAN_DATA_MAX 4096 /* bytes of a write that the guest sees */
#define PLAN_MEMORY 0xD000

#define F_DUPFD 0
#define F_SETFD 2
#define F_DUPFD_CLOEXEC 1030

/* Kinds of arguments. calls.py says which call has which; PLAN_OTHER is Python's alone. */
enum plan_kind {
	PLAN_OTHER,
	PLAN_NUMBER,
	PLAN_TEXT,      /* a string that is no path to be walked */
	PLAN_OUT,       /* an address where the call stores its result */
	PLAN_CWD_OUT,   /* where it stores the working directory */
	PLAN_AT,        /* the directory that the next path begins at */
	PLAN_PATH,      /* a path */
	PLAN_LINK_PATH, /* a path whose last component is taken as it is */
	PLAN_OLD_PATH,  /* a path; linkat's flags say whether its last link is followed */
	PLAN_READ_LINK, /* the path of a link that the call reads */
	PLAN_ENTRY,     /* that of a directory's entry to be made, moved or removed */
	PLAN_FD,        /* a descriptor that the call uses without reading or writing */
	PLAN_DIR_FD,    /* one that should be of a directory */
	PLAN_CWD_FD,    /* that of fchdir(), which leaves the task's directory as it is */
	PLAN_SEEK_FD,
	PLAN_READ_FD,
	PLAN_WRITE_FD,
	PLAN_READV_FD, /* count is what the call asks for already; likewise: */
	PLAN_WRITEV_FD,
	PLAN_CLOSED,
	PLAN_REPLACED, /* a number that is free, or taken by something else, afterwards */
	PLAN_DATA,     /* the data of a write; its size is the next argument */
};

/* A row of the table of calls. */
struct plan_row {
	uint8_t kinds[6];
	uint8_t nr_args;
	uint8_t new_fds; /* descriptors that it makes */
	uint8_t tree;    /* it is mirrored for files of the mount, too */
	uint8_t flags;   /* the argument with the flags that are next */
	uint8_t unused[2];
	uint32_t nofollow; /* those that keep a last link from being followed, each */
	uint32_t create;   /* and those that do together; 0: none do */
};

/* The host, as all calls find it. */
struct plan_host {
	long (*syscall)(long number, ...);
	int *(*errno_location)(void);
	uint64_t proc;           /* st_dev of /proc */
	const uint64_t *devices; /* those of the mount's files; 0 behind the last */
	const char *trees;       /* the places where they lie, each with / and NUL; then "" */
};

/* A call, and files of its process's /proc; -1: there is none. */
struct plan_question {
	int32_t pid;
	int32_t memory; /* mem */
	int32_t fds;    /* fd/ */
	int32_t info;   /* fdinfo/ of the descriptor that is the first argument */
	int32_t pages;  /* pagemap */
	int32_t again; /* the plan is filled in once more, which has touched the process's strings */
	const struct plan_row *row;
	uint64_t count; /* the plan's at first */
	uint64_t nr, args[6];
	uint64_t buffer; /* what the call may write to, in the user memory */
	const struct plan_host *host;
};

/* Pointers are offsets into contents, which is what the task's user memory will begin with. */
struct plan {
	struct mirror_call call; /* cwd and link are sizes; one more, so that 0 is none */
	uint32_t pointers;       /* bit n: args[n] is an offset */
	uint32_t size;           /* of contents */
	uint32_t nr_fds, nr_new, nr_names;
	int32_t text_at, text_size;     /* the call's first path: where it is there; -1: none */
	uint64_t fd_size[MIRROR_NAMES]; /* of the files of its descriptors; 0: not regular */
	uint8_t left_to_mount; /* it is about a file of the mount, and FUSE has a request for it */
	uint8_t of_mount;      /* a descriptor of it leads to a file of the mount */
	uint8_t failed;        /* a file of /proc: perhaps it is that of a former process */
	uint8_t unknown;       /* which descriptors are free: the host has no kcmp(2) */
	char cwd_text[PLAN_PATH_MAX + 1], link_text[PLAN_PATH_MAX + 1];
	char contents[PLAN_MEMORY];
};
