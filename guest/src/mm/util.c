// SPDX-License-Identifier: GPL-2.0-or-later
/* Copies of strings and blocks. */
#include <linux/kernel.h>
#include <linux/slab.h>
#include <linux/string.h>

char *kstrdup(const char *s, gfp_t gfp)
{
	return s ? kmemdup(s, strlen(s) + 1, gfp) : NULL;
}

char *kstrndup(const char *s, size_t max, gfp_t gfp)
{
	size_t len = strnlen(s, max);
	char *buf = kmalloc(len + 1, gfp);

	if (buf) {
		memcpy(buf, s, len);
		buf[len] = 0;
	}
	return buf;
}

noinline void *kmemdup(const void *src, size_t len, gfp_t gfp)
{
	void *p = kmalloc(len, gfp);

	if (p)
		memcpy(p, src, len);
	return p;
}
