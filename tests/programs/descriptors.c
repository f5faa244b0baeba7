// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Tasks that do what they are told by shared memory: tests/campaign/descriptors.py tells them.
 * descriptors FILE SLOT. Each slot is of one task, which waits for orders there.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum order {
	NOTHING,
	PIPE,
	DUP,
	DUP2,
	DUP3,
	FCNTL,
	CLOSE,
	CLOSE_RANGE,
	OPEN,
	FORK,
	THREAD,
	UNSHARE,
	EXEC,
	NAME,
	CHDIR,
	PREAD,
	SOCKETS,
	EVENTFD,
	EXIT
};
#define STACK (64 << 10)

struct slot {
	uint32_t given, done; /* orders */
	int32_t order, args[3], ret, unused;
	char path[256];
};

static const char *file;
static struct slot *slots;

static void wait_for(uint32_t *word, uint32_t old)
{
	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == old)
		syscall(SYS_futex, word, FUTEX_WAIT, old, NULL, NULL, 0);
}

static void finish(struct slot *slot, int ret)
{
	slot->ret = ret < 0 ? -1 : ret;
	__atomic_add_fetch(&slot->done, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &slot->done, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static int serve(void *slot);

/* Start a task with a slot of its own; the flags say what it shares. */
static int start(struct slot *child, int flags)
{
	if (flags & CLONE_VM)
		return clone(serve, (char *)malloc(STACK) + STACK, flags, child);
	flags = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
	if (!flags)
		exit(serve(child));
	return flags;
}

static int execute(struct slot *slot)
{
	char number[16];

	snprintf(number, sizeof(number), "%d", (int)(slot - slots));
	return execl("/proc/self/exe", "descriptors", file, number, NULL);
}

static int obey(struct slot *slot)
{
	const int32_t *a = slot->args;
	int fds[2];
	char byte;

	switch (slot->order) {
	case NOTHING:     return getppid();
	case PIPE:        return pipe2(fds, a[0]);
	case DUP:         return dup(a[0]);
	case DUP2:        return dup2(a[0], a[1]);
	case DUP3:        return dup3(a[0], a[1], a[2]);
	case FCNTL:       return fcntl(a[0], a[1], a[2]);
	case CLOSE:       return close(a[0]);
	case CLOSE_RANGE: return syscall(SYS_close_range, a[0], a[1], a[2]);
	case OPEN:        return open(slot->path, a[0], 0600);
	case FORK:        return start(&slots[a[0]], a[1]);
	case THREAD:
		return start(&slots[a[0]], CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND |
						   CLONE_THREAD | CLONE_SYSVSEM);
	case UNSHARE: return unshare(CLONE_FILES);
	case EXEC:    return execute(slot);
	case NAME:    return prctl(PR_SET_NAME, slot->path);
	case CHDIR:   return chdir(slot->path);
	case PREAD:   return pread(a[0], &byte, 1, 0);
	case SOCKETS: return socketpair(AF_UNIX, SOCK_STREAM | a[0], 0, fds);
	case EVENTFD: return eventfd(0, a[0]);
	}
	return -1;
}

static int serve(void *mine)
{
	struct slot *slot = mine;
	uint32_t given = __atomic_load_n(&slot->done, __ATOMIC_ACQUIRE);

	for (;; given++) {
		wait_for(&slot->given, given);
		if (slot->order == EXIT)
			syscall(slot->args[0] ? SYS_exit : SYS_exit_group, 0);
		finish(slot, obey(slot));
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct slot *mine;
	int fd;

	if (argc != 3)
		return 2;
	file = argv[1];
	fd = open(file, O_RDWR | O_CLOEXEC);
	slots = mmap(NULL, 32 * sizeof(*slots), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (slots == MAP_FAILED)
		return 2;
	mine = &slots[atoi(argv[2])];
	signal(SIGCHLD, SIG_IGN);
	if (mine->given != mine->done) /* told to execute a program, it has done that */
		finish(mine, 0);
	return serve(mine);
}
