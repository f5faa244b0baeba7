// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Receive reports of system calls, and let those go on at once that need nothing else.
 *
 * While nothing looks, that is nearly all of them. In Python each takes twice the time that the two
 * switches of processes take. fast_path.py says which calls may go on here, and for how long that
 * holds: until the kernel's lock is taken, as whatever begins to look has the lock.
 *
 * Built without a C library: Python passes the functions of its own.
 */
#include <stdbool.h>
#include <stdint.h>

#include "text.h"

#define API __attribute__((visibility("default")))

#define NOTIF_RECV 0xc0502100ul
#define NOTIF_SEND 0xc0182101ul
#define FLAG_CONTINUE 1
#define CLOCK_MONOTONIC 1
#define SYS_READ 0
#define SYS_CLOSE 3
#define SYS_POLL 7
#define SYS_OPENAT 257
#define SYS_PIDFD_OPEN 434
#define PIDFD_GET_INFO 0xc040ff0bul /* Linux 6.13 */
#define AT_FDCWD (-100)
#define O_CLOEXEC 02000000
#define POLLIN 1
#define SIGCHLD 17
#define PARENT 2  /* fields of /proc/PID/stat, from its state on */
#define CAUGHT 32 /* signals that have a handler */

#define FAST_PATH_PIDS 64
#define FAST_PATH_CALLS 512
#define FAST_PATH_ENDED 64
#define CHUNK 256
#define PAGE_SIZE 4096

/*
 * The ways of a call: to Python, on at once, on as the end of a process, or on if its argument
 * number WAY - WAY_PATH allows.
 */
enum { WAY_ASK, WAY_GO, WAY_EXIT, WAY_PATH };

enum { FAST_PATH_RECEIVED, FAST_PATH_LATE };

struct timespec { int64_t sec, nsec; };

/* struct pidfd_info of Linux; mask: that what follows is wanted, or there */
struct pidfd_info {
	uint64_t mask, cgroupid;
	uint32_t pid, tgid, ppid, more[9];
};

struct pollfd {
	int fd;
	int16_t events, revents;
};

struct iovec {
	void *base;
	uint64_t len;
};

/* struct seccomp_notif and struct seccomp_notif_resp of Linux */
struct report {
	uint64_t id;
	uint32_t pid, flags;
	int32_t nr;
	uint32_t arch;
	uint64_t ip, args[6];
};

struct response {
	uint64_t id;
	int64_t val;
	int32_t error;
	uint32_t flags;
};

/* what the keeper reads: see SLOT in keeper.py */
struct slot { uint64_t report, begin, received; };

struct fast_path {
	int (*ioctl)(int fd, unsigned long request, ...);
	int64_t (*process_vm_readv)(int pid, const struct iovec *to, unsigned long nr_to,
				    const struct iovec *from, unsigned long nr_from,
				    unsigned long flags);
	int (*clock_gettime)(int clock, struct timespec *time);
	int *(*errno_location)(void);
	long (*syscall)(long number, ...);
	const struct slot *slots; /* of all threads that receive */
	uint64_t nr_slots;
	const char *names;     /* ends of paths that Python is to see, each with NUL; then "" */
	const uint64_t *turns; /* how often the kernel's lock has been taken */
	uint64_t opened;       /* in which of these turns what follows holds */
	uint32_t pids[FAST_PATH_PIDS]; /* processes that are known to be behind, each at its remainder */
	uint8_t ends[FAST_PATH_PIDS]; /* these may end here: they have no task */
	uint8_t ways[FAST_PATH_CALLS];
	uint32_t nr_ended; /* processes that have, and Python does not know of it */
	uint32_t ended[FAST_PATH_ENDED];
};

static bool is_open(const struct fast_path *path)
{
	return __atomic_load_n(path->turns, __ATOMIC_ACQUIRE) ==
	       __atomic_load_n(&path->opened, __ATOMIC_ACQUIRE);
}

/* Whether a path of a process surely ends with none of the names. */
static bool is_other(const struct fast_path *path, int pid, uint64_t at)
{
	char text[CHUNK], *last = text, *end;
	uint64_t left = PAGE_SIZE - at % PAGE_SIZE;
	struct iovec to = { text, left < CHUNK ? left : CHUNK }, from = { (void *)at, to.len };
	int64_t size = path->process_vm_readv(pid, &to, 1, &from, 1, 0);

	for (end = text; end < text + size && *end; end++)
		if (*end == '/')
			last = end + 1;
	if (end >= text + size)
		return false; /* it is longer, or cannot be read */
	for (const char *name = path->names; *name; name++) {
		const char *at = last;

		while (*at && *at == *name)
			at++, name++;
		if (*at == *name)
			return false;
		while (*name)
			name++;
	}
	return true;
}

/* A process, of which /proc tells; caught: signals that have a handler, as bits. */
struct standing {
	char state;
	uint64_t parent, caught;
};

static bool read_standing(const struct fast_path *path, uint32_t pid, struct standing *standing)
{
	char name[32], text[1024], *end = name + sizeof(name), *at;
	uint64_t fields[CAUGHT + 1] = { 0 };
	int64_t size;
	long fd;

	append(append_number(append(name, end, "/proc/"), end, pid), end, "/stat");
	fd = path->syscall(SYS_OPENAT, (long)AT_FDCWD, name, (long)O_CLOEXEC);
	if (fd < 0)
		return false;
	size = path->syscall(SYS_READ, fd, text, sizeof(text));
	path->syscall(SYS_CLOSE, fd);
	for (at = text + size; at > text && at[-1] != ')'; at--)
		;
	for (int field = 0; at < text + size && field <= CAUGHT; at++)
		if (*at == ' ')
			field++;
		else if (field == 1)
			standing->state = *at;
		else
			fields[field] = fields[field] * 10 + *at - '0';
	standing->parent = fields[PARENT];
	standing->caught = fields[CAUGHT];
	return size > 0;
}

/*
 * Return the parent of a process, or 0. A file of /proc costs a short process more at its end than
 * the look itself.
 */
static uint32_t find_parent(const struct fast_path *path, uint32_t pid)
{
	long fd = path->syscall(SYS_PIDFD_OPEN, (long)pid, 0l);
	struct pidfd_info info = { .mask = 1 };
	struct standing standing;

	if (fd >= 0) {
		int refused = path->ioctl(fd, PIDFD_GET_INFO, &info);

		path->syscall(SYS_CLOSE, fd);
		if (!refused)
			return info.ppid;
	}
	return read_standing(path, pid, &standing) ? standing.parent : 0;
}

/* Whether the parent of a process surely can take the signal that it ends: see settled(). */
__attribute__((noinline)) static bool is_settled(const struct fast_path *path, int listener,
						 uint32_t pid)
{
	struct pollfd reports = { listener, POLLIN, 0 };
	struct standing parent;

	if (!read_standing(path, find_parent(path, pid), &parent))
		return false;
	if (!(parent.caught >> (SIGCHLD - 1) & 1))
		return true;
	for (uint64_t i = 0; i < path->nr_slots; i++)
		if (__atomic_load_n(&path->slots[i].begin, __ATOMIC_ACQUIRE))
			return false; /* perhaps it is the parent's call */
	return parent.state != 'R' && !path->syscall(SYS_POLL, &reports, 1l, 0l);
}

static bool may_go_on(const struct fast_path *path, int listener, const struct report *report)
{
	uint8_t way;

	if (!is_open(path) || !report->pid ||
	    path->pids[report->pid % FAST_PATH_PIDS] != report->pid)
		return false;
	way = (uint32_t)report->nr < FAST_PATH_CALLS ? path->ways[report->nr] : WAY_ASK;
	if (way == WAY_EXIT)
		return path->ends[report->pid % FAST_PATH_PIDS] &&
		       path->nr_ended < FAST_PATH_ENDED && is_settled(path, listener, report->pid);
	return way == WAY_GO ||
	       (way >= WAY_PATH && is_other(path, report->pid, report->args[way - WAY_PATH]));
}

static uint64_t now(const struct fast_path *path)
{
	struct timespec time = { 0 };

	path->clock_gettime(CLOCK_MONOTONIC, &time);
	return time.sec * 1000000000ul + time.nsec;
}

/* Let a call go on, unless its caller is gone. */
static void let_go_on(const struct fast_path *path, int listener, const struct report *report)
{
	struct response response = { .id = report->id, .flags = FLAG_CONTINUE };

	path->ioctl(listener, NOTIF_SEND, &response);
}

/*
 * Return FAST_PATH_RECEIVED with a report that Python is to look at, FAST_PATH_LATE with one that
 * has gone on while another thread took the lock, or -errno. made: first let the call of the
 * report before go on.
 */
API int fast_path_receive(struct fast_path *path, int listener, struct slot *slot,
			  struct report *report, int made)
{
	if (made) {
		let_go_on(path, listener, report);
		__atomic_store_n(&slot->begin, 0, __ATOMIC_RELEASE);
	}
	for (;;) {
		*report = (struct report){ 0 };
		if (path->ioctl(listener, NOTIF_RECV, report))
			return -*path->errno_location();
		slot->received++;
		slot->begin = 0;
		slot->report = report->id;
		if (!may_go_on(path, listener, report)) {
			slot->begin = now(path);
			return FAST_PATH_RECEIVED;
		}
		let_go_on(path, listener, report);
		if (!is_open(path))
			return FAST_PATH_LATE;
		if (path->ways[report->nr] == WAY_EXIT) {
			path->pids[report->pid % FAST_PATH_PIDS] = 0;
			path->ended[path->nr_ended++] = report->pid;
		}
	}
}
