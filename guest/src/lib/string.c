// SPDX-License-Identifier: GPL-2.0-or-later
/* Strings. memcpy and its like are in arch/string_64.S. */
#include <linux/ctype.h>
#include <linux/kernel.h>
#include <linux/string.h>

int memcmp(const void *a, const void *b, size_t n)
{
	const u8 *p = a, *q = b;

	for (; n; n--, p++, q++)
		if (*p != *q)
			return *p - *q;
	return 0;
}

void *memchr(const void *s, int c, size_t n)
{
	const u8 *p = s;

	for (; n; n--, p++)
		if (*p == (u8)c)
			return (void *)p;
	return NULL;
}

void *memchr_inv(const void *s, int c, size_t n)
{
	const u8 *p = s;

	for (; n; n--, p++)
		if (*p != (u8)c)
			return (void *)p;
	return NULL;
}

noinline size_t strlen(const char *s)
{
	const char *p = s;

	while (*p)
		p++;
	return p - s;
}

size_t strnlen(const char *s, size_t n)
{
	size_t i = 0;

	while (i < n && s[i])
		i++;
	return i;
}

noinline char *strcpy(char *dst, const char *src)
{
	char *p = dst;

	while ((*p++ = *src++))
		;
	return dst;
}

char *strncpy(char *dst, const char *src, size_t n)
{
	char *p = dst;

	for (; n; n--) {
		*p++ = *src;
		if (*src)
			src++;
	}
	return dst;
}

noinline size_t strlcpy(char *dst, const char *src, size_t n)
{
	size_t len = strlen(src);

	if (n) {
		size_t m = min(len, n - 1);

		memcpy(dst, src, m);
		dst[m] = 0;
	}
	return len;
}

ssize_t strscpy(char *dst, const char *src, size_t n)
{
	if (!n)
		return -E2BIG;
	for (size_t i = 0; i < n; i++) {
		dst[i] = src[i];
		if (!src[i])
			return i;
	}
	dst[n - 1] = 0;
	return -E2BIG;
}

char *strcat(char *dst, const char *src)
{
	strcpy(dst + strlen(dst), src);
	return dst;
}

size_t strlcat(char *dst, const char *src, size_t n)
{
	size_t len = strlen(dst);

	return len + strlcpy(dst + len, src, n - len);
}

noinline int strcmp(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return (u8)*a - (u8)*b;
}

noinline int strncmp(const char *a, const char *b, size_t n)
{
	for (; n; n--, a++, b++)
		if (*a != *b || !*a)
			return (u8)*a - (u8)*b;
	return 0;
}

int strcasecmp(const char *a, const char *b)
{
	while (*a && tolower(*a) == tolower(*b))
		a++, b++;
	return tolower(*a) - tolower(*b);
}

noinline char *strchr(const char *s, int c)
{
	for (; *s != (char)c; s++)
		if (!*s)
			return NULL;
	return (char *)s;
}

noinline char *strrchr(const char *s, int c)
{
	const char *last = NULL;

	do {
		if (*s == (char)c)
			last = s;
	} while (*s++);
	return (char *)last;
}

char *strstr(const char *s, const char *t)
{
	size_t n = strlen(t);

	for (; *s; s++)
		if (!strncmp(s, t, n))
			return (char *)s;
	return n ? NULL : (char *)s;
}

size_t strspn(const char *s, const char *accept)
{
	size_t n = 0;

	while (s[n] && strchr(accept, s[n]))
		n++;
	return n;
}

size_t strcspn(const char *s, const char *reject)
{
	size_t n = 0;

	if (*reject && !reject[1]) { /* the usual case */
		while (s[n] && s[n] != *reject)
			n++;
		return n;
	}
	while (s[n] && !strchr(reject, s[n]))
		n++;
	return n;
}

char *strsep(char **s, const char *ct)
{
	char *begin = *s, *end;

	if (!begin)
		return NULL;
	end = begin + strcspn(begin, ct);
	*s = *end ? end + 1 : NULL;
	*end = 0;
	return begin;
}

noinline char *skip_spaces(const char *s)
{
	while (isspace(*s))
		s++;
	return (char *)s;
}

char *strim(char *s)
{
	size_t n = strlen(s);

	while (n && isspace(s[n - 1]))
		s[--n] = 0;
	return skip_spaces(s);
}

/* Return true if two strings are equal but for one newline at the end. */
bool sysfs_streq(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b || (!*a && *b == '\n' && !b[1]) || (!*b && *a == '\n' && !a[1]);
}

int match_string(const char *const *array, size_t n, const char *s)
{
	for (size_t i = 0; i < n && array[i]; i++)
		if (!strcmp(array[i], s))
			return i;
	return -EINVAL;
}

const char *kbasename(const char *path)
{
	const char *tail = strrchr(path, '/');

	return tail ? tail + 1 : path;
}
