// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The background programs, as in user space. They make system calls and nothing else; their
 * strings and buffers are in their own user memory. Two bursts a second, at the same moments as
 * the packets, so that the host is woken once.
 */
#include <kpfs/hypercall.h>
#include <linux/fs.h>
#include <linux/host.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <net/packet_loop.h>
#include "workload.h"

#define NR_READ 0
#define NR_WRITE 1
#define NR_OPEN 2
#define NR_CLOSE 3
#define NR_STAT 4
#define NR_FSTAT 5
#define NR_LSEEK 8
#define NR_PIPE 22
#define NR_NANOSLEEP 35
#define NR_GETPID 39
#define NR_EXECVE 59
#define NR_EXIT 231
#define NR_WAIT4 61
#define NR_FSYNC 74
#define NR_FTRUNCATE 77
#define NR_RENAME 82
#define NR_MKDIR 83
#define NR_RMDIR 84
#define NR_UNLINK 87
#define NR_SYMLINK 88
#define NR_READLINK 89
#define NR_GETUID 102
#define NR_GETDENTS64 217
#define NR_CLONE3 435
#define BURST_NSEC (BURST_JIFFIES * TICK_NSEC)
#define LOG_MAX 0x4000

/* The layout of a program's user memory. */
#define U_PATH 0x0
#define U_PATH2 0x400
#define U_ARGS 0x800
#define U_BUF KPFS_USER_BUFFER

static noinline long usys(unsigned long nr, unsigned long a, unsigned long b, unsigned long c)
{
	struct kpfs_request req = { .kind = REQ_SYSCALL, .nr = nr, .args = { a, b, c } };

	return entry_SYSCALL_64(&req);
}

static inline unsigned long uaddr(unsigned long offset)
{
	return current->user_base + offset;
}

static noinline unsigned long ustring(unsigned long offset, const char *s)
{
	return copy_to_user((void __user *)uaddr(offset), s, strlen(s) + 1) ? 0 : uaddr(offset);
}

static long uopen(const char *path, int flags)
{
	return usys(NR_OPEN, ustring(U_PATH, path), flags, 0644);
}

static void uexit(int code)
{
	usys(NR_EXIT, code, 0, 0);
}

static noinline void usleep(u64 ns)
{
	struct timespec64 ts = { ns / NSEC_PER_SEC, ns % NSEC_PER_SEC };

	if (!copy_to_user((void __user *)uaddr(U_ARGS), &ts, sizeof(ts)))
		usys(NR_NANOSLEEP, uaddr(U_ARGS), 0, 0);
}

/* Make a child that runs fn(arg) as a program called comm. */
static noinline long uspawn(int (*fn)(void *), void *arg, const char *comm)
{
	struct kpfs_clone_args args = {
		.exit_signal = SIGCHLD,
		.stack = (unsigned long)fn,
		.stack_size = (unsigned long)arg,
		.comm = ustring(U_PATH, comm),
		.uid = ~0u,
		.gid = ~0u,
	};

	if (copy_to_user((void __user *)uaddr(U_ARGS), &args, sizeof(args)))
		return -EFAULT;
	return usys(NR_CLONE3, uaddr(U_ARGS), sizeof(args), 0);
}

/* Read a file to its end. */
static noinline long ucat(const char *path)
{
	long fd = uopen(path, O_RDONLY), n, sum = 0;

	if (fd < 0)
		return fd;
	usys(NR_FSTAT, fd, uaddr(U_BUF), 0);
	while ((n = usys(NR_READ, fd, uaddr(U_BUF), 1024)) > 0)
		sum += n;
	usys(NR_CLOSE, fd, 0, 0);
	return n < 0 ? n : sum;
}

/* Append a line to the log; start it again when it is long. */
static noinline long ulog(const char *line)
{
	long fd = uopen("/var/log/messages", O_WRONLY | O_CREAT | O_APPEND), end;

	if (fd < 0)
		return fd;
	end = usys(NR_LSEEK, fd, 0, SEEK_END);
	if (end > LOG_MAX)
		usys(NR_FTRUNCATE, fd, 0, 0);
	usys(NR_WRITE, fd, ustring(U_BUF, line), strlen(line));
	usys(NR_FSYNC, fd, 0, 0);
	return usys(NR_CLOSE, fd, 0, 0);
}

static noinline void utmpfile(void)
{
	long fd = uopen("/tmp/work", O_RDWR | O_CREAT);

	usys(NR_WRITE, fd, uaddr(U_BUF), 512);
	usys(NR_CLOSE, fd, 0, 0);
	usys(NR_RENAME, ustring(U_PATH, "/tmp/work"), ustring(U_PATH2, "/tmp/done"), 0);
	usys(NR_SYMLINK, ustring(U_PATH, "/tmp/done"), ustring(U_PATH2, "/tmp/link"), 0);
	usys(NR_READLINK, ustring(U_PATH, "/tmp/link"), uaddr(U_BUF), 64);
	usys(NR_STAT, ustring(U_PATH, "/tmp/link"), uaddr(U_BUF), 0);
	usys(NR_UNLINK, ustring(U_PATH, "/tmp/link"), 0, 0);
	usys(NR_UNLINK, ustring(U_PATH, "/tmp/done"), 0, 0);
}

static noinline void udirectory(void)
{
	long fd;

	usys(NR_MKDIR, ustring(U_PATH, "/tmp/dir"), 0755, 0);
	fd = uopen("/tmp", O_RDONLY | O_DIRECTORY);
	while (usys(NR_GETDENTS64, fd, uaddr(U_BUF), 1024) > 0)
		;
	usys(NR_CLOSE, fd, 0, 0);
	usys(NR_RMDIR, ustring(U_PATH, "/tmp/dir"), 0, 0);
}

static noinline void upipe(void)
{
	int fds[2];

	if (usys(NR_PIPE, uaddr(U_ARGS), 0, 0) ||
	    copy_from_user(fds, (void __user *)uaddr(U_ARGS), sizeof(fds)))
		return;
	usys(NR_WRITE, fds[1], uaddr(U_BUF), 100);
	usys(NR_READ, fds[0], uaddr(U_BUF), 100);
	usys(NR_CLOSE, fds[0], 0, 0);
	usys(NR_CLOSE, fds[1], 0, 0);
}

static int program_cat(void *path)
{
	usys(NR_EXECVE, ustring(U_PATH, "/bin/cat"), 0, 0);
	ucat(path);
	uexit(0);
	return 0;
}

static int program_logger(void *line)
{
	usys(NR_EXECVE, ustring(U_PATH, "/usr/bin/logger"), 0, 0);
	ulog(line);
	uexit(0);
	return 0;
}

static noinline void run_program(int (*fn)(void *), void *arg, const char *comm)
{
	long pid = uspawn(fn, arg, comm);

	if (pid > 0)
		usys(NR_WAIT4, pid, 0, 0);
}

/* Run a daemon: one burst after the other. It never calls getppid, so that users can count it. */
static int program_crond(void *unused)
{
	for (unsigned int n = 0;; n++) {
		if (n % BURST_ROUNDS == 0)
			usleep(BURST_NSEC - ktime_get() % BURST_NSEC);
		usys(NR_GETPID, 0, 0, 0);
		usys(NR_GETUID, 0, 0, 0);
		ucat("/etc/passwd");
		ucat(n & 1 ? "/proc/loadavg" : "/proc/uptime");
		utmpfile();
		switch (n % 4) {
		case 0: run_program(program_cat, "/etc/hostname", "crond"); break;
		case 1: run_program(program_logger, "crond: nothing to do\n", "crond"); break;
		case 2:
			udirectory();
			upipe();
			break;
		default: ucat("/proc/meminfo");
		}
		poll_credit();
	}
	return 0;
}

/* Start the programs, as children of pid 1, which calls this. */
void run_init_workload(void)
{
	packet_loop_init();
	if (uspawn(program_crond, NULL, "crond") < 0)
		pr_err("no crond\n");
}
