// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Find the descriptors that a process will have next. To list them by /proc costs several times as
 * much.
 *
 * Built without a C library: Python passes the functions of its own.
 */
#define API __attribute__((visibility("default")))

#define EBADF 9
#define SYS_KCMP 312
#define KCMP_FILE 0

struct functions {
	long (*syscall)(long number, ...);
	int *(*errno_location)(void);
};

/*
 * Find the next count numbers from start to before end that are free in a process. Return how many
 * there are, or -1 if the host does not tell.
 */
API int host_free_fds(const struct functions *libc, int pid, int start, int end, int *found,
		      int count)
{
	int nr = 0;

	for (int fd = start; fd < end && nr < count; fd++) {
		if (!libc->syscall(SYS_KCMP, (long)pid, (long)pid, (long)KCMP_FILE, (long)fd,
				   (long)fd))
			continue;
		if (*libc->errno_location() != EBADF)
			return -1;
		found[nr++] = fd;
	}
	return nr;
}
