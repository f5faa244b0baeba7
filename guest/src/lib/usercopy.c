// SPDX-License-Identifier: GPL-2.0-or-later
/* Copies from and to user memory. */
#include <asm/asm.h>
#include <kpfs/untouched.h>
#include <linux/kernel.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

unsigned long __clear_user(void __user *to, unsigned long n);

unsigned long _copy_to_user(void __user *to, const void *from, unsigned long n)
{
	might_fault();
	if (likely(access_ok(to, n)))
		n = copy_user_generic(to, from, n);
	return n;
}

unsigned long _copy_from_user(void *to, const void __user *from, unsigned long n)
{
	unsigned long res = n;

	might_fault();
	touch_user(from, n);
	if (likely(access_ok(from, n)))
		res = copy_user_generic(to, from, n);
	if (unlikely(res))
		memset(to + (n - res), 0, res);
	return res;
}

unsigned long clear_user(void __user *to, unsigned long n)
{
	return access_ok(to, n) ? __clear_user(to, n) : n;
}

/* Load some of user memory by an instruction; go to label if it is not there. */
#define unsafe_get(insn, x, p, label) \
	__asm__ goto("1: " insn " %1, %0\n" \
		_ASM_EXTABLE_UA(1b, %l2) \
		: "=r"(x) : "m"(*(const typeof(x) *)(p)) : : label)
#define unsafe_get_byte(x, p, label) unsafe_get("movzbl", x, p, label)
#define unsafe_get_word(x, p, label) unsafe_get("movq", x, p, label)

static __always_inline bool has_zero(unsigned long word)
{
	return (word - 0x0101010101010101UL) & ~word & 0x8080808080808080UL;
}

/* Return true if words can be read there: none of them lies in two pages. */
static __always_inline bool has_words(const char __user *s)
{
	return !((unsigned long)s % sizeof(long));
}

static noinline long do_strncpy_from_user(char *dst, const char __user *src, unsigned long count)
{
	unsigned long n = 0, word;

	for (; has_words(src) && n + sizeof(word) <= count; n += sizeof(word)) {
		unsafe_get_word(word, src + n, bytes);
		if (has_zero(word))
			break;
		*(unsigned long *)(dst + n) = word;
	}
bytes:
	for (; n < count; n++) {
		u32 c;

		unsafe_get_byte(c, src + n, efault);
		dst[n] = c;
		if (!c)
			return n;
	}
	return count;
efault:
	return -EFAULT;
}

/* Copy a string. Return its length without NUL, count if there was none, or -EFAULT. */
long strncpy_from_user(char *dst, const char __user *src, long count)
{
	long len;

	might_fault();
	if (unlikely(count <= 0))
		return 0;
	if (!access_ok(src, 1))
		return -EFAULT;
	len = do_strncpy_from_user(dst, src,
				   min_t(unsigned long, count, TASK_SIZE_MAX - (unsigned long)src));
	if (len >= 0)
		touch_user(src, min(len + 1, count));
	return len;
}

static __always_inline long do_strnlen_user(const char __user *s, long n)
{
	long i = 0;
	unsigned long word;

	for (; has_words(s) && i + (long)sizeof(word) <= n; i += sizeof(word)) {
		unsafe_get_word(word, s + i, bytes);
		if (has_zero(word))
			break;
	}
bytes:
	for (; i < n; i++) {
		u32 c;

		unsafe_get_byte(c, s + i, efault);
		if (!c)
			return i + 1;
	}
	return n + 1;
efault:
	return 0;
}

/* Return the length of a string with NUL, more than n if there was none, 0 for a fault. */
long strnlen_user(const char __user *s, long n)
{
	long len = access_ok(s, 1) ? do_strnlen_user(s, n) : 0;

	if (len)
		touch_user(s, min(len, n));
	return len;
}

char *strndup_user(const char __user *s, long n)
{
	long len = strnlen_user(s, n);
	char *p;

	if (!len)
		return ERR_PTR(-EFAULT);
	if (len > n)
		return ERR_PTR(-EINVAL);
	p = memdup_user(s, len);
	if (!IS_ERR(p))
		p[len - 1] = 0;
	return p;
}

noinline void *memdup_user(const void __user *src, size_t len)
{
	void *p = kmalloc(len, GFP_USER);

	if (!p)
		return ERR_PTR(-ENOMEM);
	if (copy_from_user(p, src, len)) {
		kfree(p);
		return ERR_PTR(-EFAULT);
	}
	return p;
}
