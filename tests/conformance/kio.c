// SPDX-License-Identifier: GPL-2.0-or-later
// kio OP... : run file operations in order, print result of each. See README.md
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/uio.h>
static int fd[10] = { -1, -1, -1, -1, -1, -1, -1, -1, -1, -1 }, cur;
static const struct {
	char letter;
	int flag;
} flags[] = { { 't', O_TRUNC }, { 'a', O_APPEND },   { 'c', O_CREAT },
	      { 'x', O_EXCL },  { 'n', O_NONBLOCK }, { 'd', O_DIRECTORY } };
static const char *en(int e)
{
	const char *n = strerrorname_np(e);
	return n ? n : "?";
}
static void esc(const char *b, long n)
{
	putchar('"');
	for (long i = 0; i < n; i++) {
		unsigned char c = b[i];
		if (c == '\n')
			printf("\\n");
		else if (c == '\r')
			printf("\\r");
		else if (c == '\t')
			printf("\\t");
		else if (c == '"' || c == '\\')
			printf("\\%c", c);
		else if (c < 32 || c > 126)
			printf("\\x%02x", c);
		else
			putchar(c);
	}
	putchar('"');
}
static long unesc(char *s)
{
	static const char letters[] = "nrt0", meant[] = "\n\r\t";
	char *d = s, *o = s;
	while (*s) {
		if (*s != '\\') {
			*d++ = *s++;
			continue;
		}
		s++;
		const char *letter = *s ? strchr(letters, *s) : NULL;
		if (letter) {
			*d++ = meant[letter - letters];
			s++;
		} else if (*s == 'x') {
			char h[3] = { s[1], s[2], 0 };
			*d++ = strtol(h, 0, 16);
			s += 3;
		} else if (*s) {
			*d++ = *s++;
		}
	}
	return d - o;
}
static void rc(const char *what, long r)
{
	if (r < 0)
		printf("%s = -1 %s\n", what, en(errno));
	else
		printf("%s = %ld\n", what, r);
}
/* Part an argument at its colon; return what is behind it. */
static char *second(char *a)
{
	char *p = strchr(a, ':');
	*p++ = 0;
	return p;
}
int main(int c, char **v)
{
	setvbuf(stdout, 0, _IOFBF, 1 << 20);
	static char buf[1 << 22];
	for (int i = 1; i < c; i++) {
		char *op = strdup(v[i]);
		char *a = strchr(op, ':');
		if (a)
			*a++ = 0;
		errno = 0;
		if (op[0] == '@') {
			cur = atoi(op + 1);
			continue;
		}
		if (!strcmp(op, "open")) {
			char *p = second(a);
			int f = 0;
			int r = !!strchr(a, 'r'), w = !!strchr(a, 'w');
			f = r && w ? O_RDWR : w ? O_WRONLY : O_RDONLY;
			for (size_t k = 0; k < sizeof flags / sizeof *flags; k++)
				if (strchr(a, flags[k].letter))
					f |= flags[k].flag;
			fd[cur] = open(p, f, 0644);
			if (fd[cur] < 0)
				printf("open %s = -1 %s\n", a, en(errno));
			else
				printf("open %s ok\n", a);
		} else if (!strcmp(op, "read")) {
			long n = atol(a);
			long r = read(fd[cur], buf, n);
			if (r < 0)
				printf("read %ld = -1 %s\n", n, en(errno));
			else {
				printf("read %ld = %ld ", n, r);
				esc(buf, r);
				putchar('\n');
			}
		} else if (!strcmp(op, "readn")) {
			long n = atol(a);
			long r = read(fd[cur], buf, n);
			rc("readn", r);
		} else if (!strcmp(op, "pread")) {
			char *p = strchr(a, ':');
			long n = atol(a), o = atol(p + 1);
			long r = pread(fd[cur], buf, n, o);
			if (r < 0)
				printf("pread %ld @%ld = -1 %s\n", n, o, en(errno));
			else {
				printf("pread %ld @%ld = %ld ", n, o, r);
				esc(buf, r);
				putchar('\n');
			}
		} else if (!strcmp(op, "readall")) {
			long t = 0, k = 0, r;
			long n = a ? atol(a) : 4096;
			while ((r = read(fd[cur], buf + t, n)) > 0) {
				t += r;
				k++;
			}
			printf("readall chunk=%ld: ", n);
			if (r < 0)
				printf("err %s ", en(errno));
			esc(buf, t);
			putchar('\n');
		} else if (!strcmp(op, "write")) {
			char *s = strdup(a);
			long n = unesc(s);
			long r = write(fd[cur], s, n);
			printf("write %s", n > 60 ? "..." : "");
			if (n <= 60)
				esc(s, n);
			rc("", r);
		} else if (!strcmp(op, "writerep")) {
			char *p = second(a);
			long n = atol(p);
			long l = unesc(a);
			long k = 0;
			for (; k + l <= n; k += l)
				memcpy(buf + k, a, l);
			long r = write(fd[cur], buf, k);
			printf("writerep len=%ld", k);
			rc("", r);
		} else if (!strcmp(op, "writefile")) {
			FILE *f = fopen(a, "r");
			long n = fread(buf, 1, sizeof buf, f);
			fclose(f);
			long r = write(fd[cur], buf, n);
			printf("writefile len=%ld", n);
			rc("", r);
		} else if (!strcmp(op, "pwrite")) {
			char *p = second(a);
			long o = atol(a);
			char *s = strdup(p);
			long n = unesc(s);
			long r = pwrite(fd[cur], s, n, o);
			printf("pwrite @%ld ", o);
			esc(s, n);
			rc("", r);
		} else if (!strcmp(op, "writev")) {
			struct iovec v[8];
			int k = 0;
			printf("writev");
			for (char *s = strdup(a), *e; s; s = e) {
				e = strchr(s, '|');
				if (e)
					*e++ = 0;
				v[k].iov_base = s;
				v[k].iov_len = unesc(s);
				putchar(' ');
				esc(s, v[k].iov_len);
				k++;
			}
			rc("", writev(fd[cur], v, k));
		} else if (!strcmp(op, "lseek")) {
			char *p = strchr(a, ':');
			long o = atol(a);
			int w = p ? (p[1] == 'e' ? SEEK_END :
				     p[1] == 'c' ? SEEK_CUR :
						   SEEK_SET) :
				    SEEK_SET;
			char t[64];
			snprintf(t, 64, "lseek %ld %s", o,
				 w == SEEK_END ? "end" :
				 w == SEEK_CUR ? "cur" :
						 "set");
			rc(t, lseek(fd[cur], o, w));
		} else if (!strcmp(op, "ftruncate")) {
			rc("ftruncate", ftruncate(fd[cur], atol(a)));
		} else if (!strcmp(op, "writebad")) {
			rc("writebad", write(fd[cur], (void *)16, atol(a)));
		} else if (!strcmp(op, "readbad")) {
			rc("readbad", read(fd[cur], (void *)16, atol(a)));
		} else if (!strcmp(op, "fsync")) {
			rc("fsync", fsync(fd[cur]));
		} else if (!strcmp(op, "close")) {
			rc("close", close(fd[cur]));
			fd[cur] = -1;
		} else if (!strcmp(op, "truncate")) {
			char *p = second(a);
			rc("truncate", truncate(p, atol(a)));
		} else if (!strcmp(op, "poll")) {
			struct pollfd pf = { fd[cur], POLLIN | POLLOUT, 0 };
			int r = poll(&pf, 1, a ? atoi(a) : 0);
			printf("poll = %d revents=%s%s%s%s\n", r, pf.revents & POLLIN ? "IN " : "",
			       pf.revents & POLLOUT ? "OUT " : "",
			       pf.revents & POLLERR ? "ERR " : "",
			       pf.revents & POLLHUP ? "HUP" : "");
		} else if (!strcmp(op, "mkdir"))
			rc("mkdir", mkdir(a, 0755));
		else if (!strcmp(op, "rmdir"))
			rc("rmdir", rmdir(a));
		else if (!strcmp(op, "unlink"))
			rc("unlink", unlink(a));
		else if (!strcmp(op, "creat")) {
			int f = open(a, O_WRONLY | O_CREAT | O_EXCL, 0644);
			if (f < 0)
				rc("creat", -1);
			else {
				printf("creat ok\n");
				close(f);
			}
		} else if (!strcmp(op, "link")) {
			char *p = second(a);
			rc("link", link(a, p));
		} else if (!strcmp(op, "symlink")) {
			char *p = second(a);
			rc("symlink", symlink(a, p));
		} else if (!strcmp(op, "rename")) {
			char *p = second(a);
			rc("rename", rename(a, p));
		} else if (!strcmp(op, "chmod")) {
			char *p = second(a);
			rc("chmod", chmod(p, strtol(a, 0, 8)));
		} else if (!strcmp(op, "utime"))
			rc("utime", utimensat(AT_FDCWD, a, 0, 0));
		else if (!strcmp(op, "setuid"))
			rc("setuid", setuid(atoi(a)));
		else if (!strcmp(op, "access")) {
			char *p = second(a);
			rc("access", access(p, strchr(a, 'w') ? W_OK :
					       strchr(a, 'x') ? X_OK :
								R_OK));
		} else if (!strcmp(op, "stat")) {
			struct stat s;
			int r = lstat(a, &s);
			if (r < 0)
				rc("stat", r);
			else
				printf("stat mode=%o uid=%d gid=%d size=%ld nlink=%s blksize=%ld blocks=%ld\n",
				       s.st_mode, s.st_uid, s.st_gid, (long)s.st_size,
				       S_ISDIR(s.st_mode) ? "D" :
				       s.st_nlink == 1    ? "1" :
							    "N",
				       (long)s.st_blksize, (long)s.st_blocks);
		} else if (!strcmp(op, "sleep"))
			usleep(atol(a) * 1000);
		else
			printf("?op %s\n", op);
	}
	fflush(stdout);
	return 0;
}
