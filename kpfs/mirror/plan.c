// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Plan a call of the host: ask the host for all that making it again needs. calls.py has the table
 * of calls, which says what that is.
 *
 * These are five to ten questions for each call, and Python takes as long for a question as the
 * host does. It is left with the rare kinds of arguments, and with keeping files of /proc open.
 *
 * Built without a C library: Python passes the functions of its own. Nothing here takes the
 * kernel's lock: a look at a path may lead into the mount, which is served under it.
 */
#include "plan.h"
#include "text.h"

#define API __attribute__((visibility("default")))

#define EBADF 9
#define SYS_PREAD64 17
#define SYS_READLINKAT 267
#define SYS_KCMP 312
#define SYS_STATX 332
#define NR_FCNTL 72
#define KCMP_FILE 0
#define AT_FDCWD (-100)
#define AT_SYMLINK_NOFOLLOW 0x100
#define AT_SYMLINK_FOLLOW 0x400
#define AT_STATX_DONT_SYNC 0x4000
#define STATX_BASIC_STATS 0x7ff
#define STATX_TYPE_AND_MODE 3
#define SEEK_CUR 1
#define S_IFMT 0170000
#define S_IFIFO 0010000
#define S_IFDIR 0040000
#define S_IFREG 0100000
#define PAGE_SIZE 4096
#define PAGE_PRESENT 63 /* a bit of a page's entry in pagemap */
#define CHUNK 256
#define INFO_SIZE 64 /* of a file of fdinfo, what begins with its position */
#define PLACE_SIZE (3 * PLAN_PATH_MAX)

struct statx {
	uint32_t mask, blksize;
	uint64_t attributes;
	uint32_t nlink, uid, gid;
	uint16_t mode, pad;
	uint64_t ino, size, blocks, attributes_mask, times[8];
	uint32_t rdev_major, rdev_minor, dev_major, dev_minor;
	uint64_t more[14];
};

/* A pass through the arguments of one call. */
struct carrier {
	const struct plan_host *host;
	const struct plan_row *row;
	const struct plan_question *question;
	const uint64_t *values; /* the arguments as they are */
	struct plan *plan;
	int dirfd;
	bool follow;
	char *place; /* of the last path: PLACE_SIZE bytes */
};

/* ---- memory */

/* Read memory of the process: as many of the bytes as can be read. Return how many. */
static uint64_t read_memory(struct carrier *c, uint64_t addr, char *to, uint64_t size)
{
	uint64_t done = 0;
	long got;

	while (done < size) {
		got = c->host->syscall(SYS_PREAD64, (long)c->question->memory, to + done,
				       size - done, addr + done);
		if (got <= 0)
			break;
		done += got;
	}
	if (!done && size)
		c->plan->failed = true;
	return done;
}

/* Put what has been read behind the plan's memory into it, and make an argument its address. */
static void place(struct carrier *c, int index, uint32_t size)
{
	struct plan *plan = c->plan;

	plan->call.args[index] = plan->size;
	plan->pointers |= 1u << index;
	plan->size += size;
	while (plan->size % 8)
		plan->contents[plan->size++] = 0;
}

/* Return true if the page of an address has no memory, or it is not in. */
static bool is_untouched(struct carrier *c, uint64_t addr)
{
	uint64_t entry;

	return c->host->syscall(SYS_PREAD64, (long)c->question->pages, &entry, sizeof(entry),
				addr / PAGE_SIZE * sizeof(entry)) == sizeof(entry) &&
	       !(entry >> PAGE_PRESENT & 1);
}

/* Add a part of the plan's memory to that which the process has not touched; none if it is empty. */
static void add_untouched(struct mirror_call *call, uint64_t from, uint64_t to)
{
	if (from >= to)
		return;
	if (!call->untouched_to || from < call->untouched_from)
		call->untouched_from = from;
	if (to > call->untouched_to)
		call->untouched_to = to;
}

/*
 * Read the string that an argument points to behind the plan's memory; that brings it into the
 * process's memory. Return its length, PLAN_PATH_MAX if it is longer, or -1 if it has no end.
 */
static int read_string(struct carrier *c, int index)
{
	uint64_t addr = c->values[index], begin = c->plan->size, touched = ~0UL;
	char *text = c->plan->contents + begin;
	int length = 0;

	while (length < PLAN_PATH_MAX) {
		uint64_t size = PAGE_SIZE - (addr + length) % PAGE_SIZE, got;

		if (touched == ~0UL && (!length || size == PAGE_SIZE) &&
		    is_untouched(c, addr + length))
			touched = begin + length;
		if (size > CHUNK)
			size = CHUNK;
		if (size > PLAN_PATH_MAX - (uint64_t)length)
			size = PLAN_PATH_MAX - length;
		got = read_memory(c, addr + length, text + length, size);
		for (uint64_t i = 0; i < got; i++)
			if (!text[length + i]) {
				add_untouched(&c->plan->call, touched, begin + length + i + 1);
				return length + i;
			}
		if (!got)
			return -1;
		length += got;
	}
	add_untouched(&c->plan->call, touched, begin + length);
	text[length] = 0;
	return length;
}

static void carry_text(struct carrier *c, int index)
{
	int length = read_string(c, index);

	if (length >= 0) /* a bad address is as bad in the kernel */
		place(c, index, length + 1);
}

static void carry_out(struct carrier *c, int index)
{
	if (c->values[index]) {
		c->plan->call.args[index] = c->question->buffer;
		c->plan->pointers |= 1u << index;
	}
}

static void carry_data(struct carrier *c, int index)
{
	struct plan *plan = c->plan;
	uint64_t size = c->values[2] < PLAN_DATA_MAX ? c->values[2] : PLAN_DATA_MAX;

	place(c, index, read_memory(c, c->values[index], plan->contents + plan->size, size));
}

/* ---- descriptors */

static bool is_of_mount(const struct carrier *c, const struct statx *st)
{
	uint64_t dev = (uint64_t)st->dev_major << 32 | st->dev_minor;

	for (const uint64_t *device = c->host->devices; *device; device++)
		if (*device == dev)
			return true;
	return false;
}

/* Look at what a descriptor leads to, without asking its file system. Return false if it is not open. */
static bool look_at(struct carrier *c, int fd, struct statx *st)
{
	char name[12];

	st->mode = 0;
	if (fd < 0)
		return false;
	append_number(name, name + sizeof(name), fd);
	if (!c->host->syscall(SYS_STATX, (long)c->question->fds, name, (long)AT_STATX_DONT_SYNC,
			      (long)STATX_BASIC_STATS, st))
		return true;
	c->plan->failed = true;
	return false;
}

static void add_fd(struct carrier *c, int fd, unsigned int mode, uint64_t size)
{
	struct plan *plan = c->plan;

	plan->fd_size[plan->nr_fds] = size;
	plan->call.fd[plan->nr_fds] = fd;
	plan->call.fd_mode[plan->nr_fds++] = mode;
}

/* Return the position of a descriptor's file, or -1. */
static int64_t position(struct carrier *c)
{
	char info[INFO_SIZE], *at = info;
	int64_t value = 0;
	long size = c->host->syscall(SYS_PREAD64, (long)c->question->info, info,
				     (long)sizeof(info) - 1, 0l);

	if (size <= 0) {
		c->plan->failed = true;
		return -1;
	}
	info[size] = 0; /* pos:\tNUMBER */
	while (*at && (*at < '0' || *at > '9'))
		at++;
	for (; *at >= '0' && *at <= '9'; at++)
		value = value * 10 + *at - '0';
	return value;
}

/* Return how many of count bytes a read will get, as far as one can tell. */
static uint64_t bytes_left(struct carrier *c, const struct statx *st, uint64_t count, bool at)
{
	int64_t pos;
	uint64_t dev = (uint64_t)st->dev_major << 32 | st->dev_minor;

	if ((st->mode & S_IFMT) != S_IFREG)
		return count;
	pos = at ? (int64_t)c->values[3] : position(c);
	if (pos < 0 && !at)
		return count;
	if (dev == c->host->proc) /* no size; what there is comes at once */
		return pos ? 0 : count;
	if (pos < 0)
		return count;
	if ((uint64_t)pos >= st->size)
		return 0;
	return st->size - pos < count ? st->size - pos : count;
}

static void carry_seek(struct carrier *c, const struct statx *st, unsigned int *mode)
{
	unsigned int type = st->mode & S_IFMT;

	*mode = type == S_IFDIR || type == S_IFREG ? type : S_IFIFO; /* a pipe has no position */
	if (type == S_IFREG) {
		int64_t start = c->values[2] == SEEK_CUR ? position(c) : (int64_t)st->size;

		c->plan->call.count = start < 0 ? 0 : start;
	}
}

/* Plan a descriptor that the call uses. */
static void carry_fd(struct carrier *c, int index, enum plan_kind kind)
{
	struct plan *plan = c->plan;
	int fd = c->values[index];
	unsigned int mode = S_IFREG;
	struct statx st;
	bool open = look_at(c, fd, &st);

	if (kind == PLAN_CWD_FD)
		plan->call.paths = true;
	if (kind == PLAN_WRITE_FD)
		plan->call.count = c->values[2];
	if (!open)
		return;
	if (is_of_mount(c, &st)) {
		plan->of_mount = true;
		plan->left_to_mount = !c->row->tree;
		if (plan->left_to_mount)
			return;
	}
	if (kind == PLAN_DIR_FD || kind == PLAN_CWD_FD)
		mode = st.mode & S_IFMT;
	else if (kind == PLAN_WRITE_FD || kind == PLAN_WRITEV_FD)
		mode |= 0200;
	else if (kind == PLAN_SEEK_FD)
		carry_seek(c, &st, &mode);
	if (fd >= MIRROR_MAX_FD)
		return;
	if (kind == PLAN_READ_FD || kind == PLAN_READV_FD) {
		mode |= 0400;
		plan->call.count = kind == PLAN_READ_FD ?
					   bytes_left(c, &st, c->values[2], c->row->nr_args > 3) :
					   bytes_left(c, &st, plan->call.count, false);
	}
	add_fd(c, fd, mode, (st.mode & S_IFMT) == S_IFREG ? st.size : 0);
}

static void carry_replaced(struct carrier *c, int index, bool closed)
{
	int fd = c->values[index];
	struct statx st;

	if (closed && look_at(c, fd, &st) && is_of_mount(c, &st))
		c->plan->call.mount = true;
	else if (fd >= 0 && fd < MIRROR_MAX_FD)
		c->plan->call.spare_fd = fd;
}

static bool are_open(const struct carrier *c, int fd, int other)
{
	long pid = c->question->pid;

	return c->host->syscall(SYS_KCMP, pid, pid, (long)KCMP_FILE, (long)fd, (long)other) >= 0;
}

/*
 * Find the next descriptors that the process will have, from start on. To list them by /proc costs
 * several times as much as to try each; two are tried at once.
 */
static void find_free(struct carrier *c, uint32_t count, uint64_t start)
{
	struct plan *plan = c->plan;
	uint64_t fd = start;

	while (fd < MIRROR_MAX_FD && plan->nr_new < count) {
		if (are_open(c, fd, fd + 1)) {
			fd += 2;
			continue;
		}
		if (*c->host->errno_location() != EBADF) {
			plan->unknown = true;
			return;
		}
		if (are_open(c, fd, fd))
			fd++; /* so the other one is free */
		if (fd < MIRROR_MAX_FD)
			plan->call.new_fd[plan->nr_new++] = fd++;
	}
}

/* ---- paths */

static const char *cwd(struct carrier *c)
{
	struct plan *plan = c->plan;
	char name[32], *end = name + sizeof(name);
	long size;

	append(append_number(append(name, end, "/proc/"), end, c->question->pid), end, "/cwd");
	size = c->host->syscall(SYS_READLINKAT, (long)AT_FDCWD, name, plan->cwd_text,
				(long)PLAN_PATH_MAX);
	if (size <= 0) {
		size = 1;
		plan->cwd_text[0] = '/';
	}
	plan->cwd_text[size] = 0;
	plan->call.cwd = size + 1;
	return plan->cwd_text;
}

/* Take what is no name out of an absolute path. */
static void normalize(char *path)
{
	char *from = path, *to = path;

	while (*from) {
		const char *name;
		int length;

		while (*from == '/')
			from++;
		for (name = from, length = 0; *from && *from != '/'; from++)
			length++;
		if (length == 2 && name[0] == '.' && name[1] == '.') {
			while (to > path && *--to != '/')
				;
		} else if (length && !(length == 1 && name[0] == '.')) {
			*to++ = '/';
			while (length--)
				*to++ = *name++;
		}
	}
	*to = 0;
}

/* Return true if the last path is one of the mount's. */
static bool is_in_tree(struct carrier *c)
{
	const char *tree = c->host->trees, *path = c->place;

	if (*path != '/')
		return false;
	normalize(c->place);
	while (*tree) {
		for (path = c->place; *path && *path == *tree; path++)
			tree++;
		if (!tree[0] || (tree[0] == '/' && !tree[1] && !*path))
			return true;
		while (*tree++)
			;
	}
	return false;
}

/* Write the absolute path of one that begins at a directory; plan the directory. */
static void find_place(struct carrier *c, int dirfd, const char *text)
{
	char name[12], base[PLAN_PATH_MAX + 1], *to = c->place, *end = to + PLACE_SIZE;
	long size = -1;

	if (dirfd == AT_FDCWD) {
		append(append(append(to, end, cwd(c)), end, "/"), end, text);
		return;
	}
	if (dirfd >= 0) {
		append_number(name, name + sizeof(name), dirfd);
		size = c->host->syscall(SYS_READLINKAT, (long)c->question->fds, name, base,
					(long)PLAN_PATH_MAX);
		if (size < 0)
			c->plan->failed = true;
	}
	base[size < 0 ? 0 : size] = 0; /* not open, and so not in the kernel */
	append(to, end, base);
	c->plan->of_mount |= is_in_tree(c);
	if (size >= 0 && dirfd < MIRROR_MAX_FD)
		add_fd(c, dirfd, *text ? S_IFDIR : S_IFREG, 0);
	to = append(to, end, base);
	if (*text || size < 0)
		append(append(to, end, "/"), end, text);
}

/* Write where this process finds what another calls text. */
static void find_own_place(struct carrier *c, int dirfd, const char *text)
{
	static const char self[] = "/proc/self/";
	char *to = c->place, *end = to + PLACE_SIZE;
	const char *at = text;

	to = append_number(append(to, end, "/proc/"), end, c->question->pid);
	for (int i = 0; self[i] && *at == self[i]; i++)
		at++;
	if (!self[at - text]) {
		append(append(to, end, "/"), end, at);
	} else if (*text == '/') {
		append(append(to, end, "/root"), end, text);
	} else if (dirfd == AT_FDCWD) {
		append(append(to, end, "/cwd/"), end, text);
	} else {
		to = append(to, end, "/fd/");
		if (dirfd < 0)
			to = append(to, end, "-"); /* there is none */
		append(append(append_number(to, end, dirfd), end, "/"), end, text);
	}
}

/* Return how many components of a path are walked. */
static unsigned int count_walked(const char *text)
{
	unsigned int count = 0;

	while (*text) {
		const char *name = text;
		long length;

		while (*text && *text != '/')
			text++;
		length = text - name;
		count += length &&
			 !(name[0] == '.' && (length == 1 || (length == 2 && name[1] == '.')));
		while (*text == '/')
			text++;
	}
	return count;
}

/* Plan a path. Return false if it is bad, or left to the mount. */
static bool carry_path(struct carrier *c, int index, bool follow)
{
	struct plan *plan = c->plan;
	int dirfd = c->dirfd, length = read_string(c, index);
	const char *text = plan->contents + plan->size;
	unsigned int mode = S_IFREG | 0644;
	bool in_tree;
	struct statx st;

	c->dirfd = AT_FDCWD;
	plan->call.paths = true;
	if (length < 0) { /* a bad address is as bad in the kernel */
		c->place[0] = 0;
		if (!c->values[index]) /* utimensat: NULL is the descriptor itself */
			find_place(c, dirfd, "");
		plan->left_to_mount = !c->row->tree && is_in_tree(c);
		return false;
	}
	if (length == PLAN_PATH_MAX) { /* it is too long in the kernel, too */
		place(c, index, length + 1);
		return false;
	}
	if (plan->text_at < 0) {
		plan->text_at = plan->size;
		plan->text_size = length;
	}
	if (*text == '/')
		append(c->place, c->place + PLACE_SIZE, text);
	else
		find_place(c, dirfd, text);
	in_tree = is_in_tree(c);
	if (!in_tree && *text) {
		find_own_place(c, dirfd, text);
		mode = 0;
		if (!c->host->syscall(SYS_STATX, (long)AT_FDCWD, c->place,
				      (long)AT_STATX_DONT_SYNC | (follow ? 0 : AT_SYMLINK_NOFOLLOW),
				      (long)STATX_TYPE_AND_MODE, &st)) {
			mode = st.mode;
			in_tree = is_of_mount(c, &st);
		}
	}
	if (in_tree && !c->row->tree) {
		plan->left_to_mount = true;
		return false;
	}
	plan->call.components[plan->nr_names] = count_walked(text);
	plan->call.name_mode[plan->nr_names++] = mode;
	place(c, index, length + 1);
	return true;
}

static void carry_read_link(struct carrier *c, int index)
{
	struct plan *plan = c->plan;
	int dirfd = c->dirfd;
	long size;

	if (!carry_path(c, index, false))
		return;
	find_own_place(c, dirfd, plan->contents + plan->call.args[index]);
	size = c->host->syscall(SYS_READLINKAT, (long)AT_FDCWD, c->place, plan->link_text,
				(long)PLAN_PATH_MAX);
	if (size > 0) {
		plan->link_text[size] = 0;
		plan->call.link = size + 1;
	}
}

/* ---- a call */

static void carry(struct carrier *c, int index)
{
	enum plan_kind kind = c->row->kinds[index];

	switch (kind) {
	case PLAN_OTHER:
	case PLAN_NUMBER: break;
	case PLAN_TEXT:   carry_text(c, index); break;
	case PLAN_CWD_OUT:
		c->plan->call.paths = true;
		cwd(c);
		/* fall through */
	case PLAN_OUT:       carry_out(c, index); break;
	case PLAN_AT:        c->dirfd = c->values[index]; break;
	case PLAN_PATH:      carry_path(c, index, c->follow); break;
	case PLAN_LINK_PATH: carry_path(c, index, false); break;
	case PLAN_OLD_PATH:  carry_path(c, index, c->values[4] & AT_SYMLINK_FOLLOW); break;
	case PLAN_READ_LINK: carry_read_link(c, index); break;
	case PLAN_ENTRY:
		if (carry_path(c, index, false))
			c->plan->call.components[c->plan->nr_names - 1] = 0;
		break;
	case PLAN_CLOSED:
	case PLAN_REPLACED: carry_replaced(c, index, kind == PLAN_CLOSED); break;
	case PLAN_DATA:     carry_data(c, index); break;
	default:            carry_fd(c, index, kind);
	}
}

/* Fill in the plan of a call. */
API void plan_call(const struct plan_question *question, struct plan *plan)
{
	const struct plan_row *row = question->row;
	const uint64_t *values = question->args;
	char of_path[PLACE_SIZE];
	struct carrier c = { .host = question->host,
			     .row = row,
			     .question = question,
			     .values = values,
			     .plan = plan,
			     .place = of_path };
	uint64_t flags = values[row->flags];
	struct mirror_call before = plan->call;

	c.dirfd = AT_FDCWD;
	c.follow = !(flags & row->nofollow) &&
		   !(row->create && (flags & row->create) == row->create);
	plan->call = (struct mirror_call){ .nr = question->nr,
					   .count = question->count,
					   .spare_fd = -1 };
	if (question->again)
		add_untouched(&plan->call, before.untouched_from, before.untouched_to);
	for (int i = 0; i < MIRROR_NAMES; i++)
		plan->call.fd[i] = plan->call.new_fd[i] = -1;
	for (int i = 0; i < row->nr_args; i++)
		plan->call.args[i] = values[i];
	plan->pointers = plan->size = plan->nr_fds = plan->nr_new = plan->nr_names = 0;
	plan->left_to_mount = plan->of_mount = plan->failed = plan->unknown = false;
	plan->text_at = -1;
	for (int i = 0; i < row->nr_args && !plan->left_to_mount; i++)
		carry(&c, i);
	if (plan->left_to_mount)
		return;
	if (question->nr == NR_FCNTL &&
	    ((uint32_t)values[1] == F_DUPFD || (uint32_t)values[1] == F_DUPFD_CLOEXEC))
		find_free(&c, 1, values[2]);
	else
		find_free(&c, row->new_fds, 0);
}
