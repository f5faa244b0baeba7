// SPDX-License-Identifier: GPL-2.0-or-later
/* Numbers out of strings. */
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/uaccess.h>

#define KSTRTOX_OVERFLOW (1U << 31)

noinline int hex_to_bin(unsigned char ch)
{
	if (ch >= '0' && ch <= '9')
		return ch - '0';
	ch |= 0x20;
	return ch >= 'a' && ch <= 'f' ? ch - 'a' + 10 : -1;
}

static noinline const char *_parse_integer_fixup_radix(const char *s, unsigned int *base)
{
	bool hex = s[0] == '0' && (s[1] | 0x20) == 'x' && hex_to_bin(s[2]) >= 0;

	if (*base == 0)
		*base = hex ? 16 : s[0] == '0' ? 8 : 10;
	return *base == 16 && hex ? s + 2 : s;
}

static noinline unsigned int _parse_integer(const char *s, unsigned int base,
					    unsigned long long *res)
{
	unsigned int n = 0;

	*res = 0;
	for (;; s++) {
		int digit = hex_to_bin(*s);

		if (digit < 0 || digit >= (int)base)
			return n;
		if (__builtin_mul_overflow(*res, (unsigned long long)base, res) ||
		    __builtin_add_overflow(*res, (unsigned long long)digit, res))
			n |= KSTRTOX_OVERFLOW;
		n++;
	}
}

static noinline int _kstrtoull(const char *s, unsigned int base, unsigned long long *res)
{
	unsigned long long value;
	unsigned int n;

	s = _parse_integer_fixup_radix(s, &base);
	n = _parse_integer(s, base, &value);
	if (n & KSTRTOX_OVERFLOW)
		return -ERANGE;
	if (!n)
		return -EINVAL;
	s += n;
	if (*s == '\n')
		s++;
	if (*s)
		return -EINVAL;
	*res = value;
	return 0;
}

noinline int kstrtoull(const char *s, unsigned int base, unsigned long long *res)
{
	if (*s == '+')
		s++;
	return _kstrtoull(s, base, res);
}

noinline int kstrtoll(const char *s, unsigned int base, long long *res)
{
	unsigned long long value;
	bool minus = *s == '-';
	int err = minus ? _kstrtoull(s + 1, base, &value) : kstrtoull(s, base, &value);

	if (err)
		return err;
	if (minus ? (long long)-value > 0 : (long long)value < 0)
		return -ERANGE;
	*res = minus ? -value : value;
	return 0;
}

/* Define the reader of a narrower type, by way of the widest. */
#define KSTRTOX(name, type, wide_name, wide) \
noinline int name(const char *s, unsigned int base, type *res) \
{ \
	wide value; \
	int err = wide_name(s, base, &value); \
	if (err) \
		return err; \
	if (value != (type)value) \
		return -ERANGE; \
	*res = value; \
	return 0; \
}
KSTRTOX(kstrtouint, unsigned int, kstrtoull, unsigned long long)
KSTRTOX(kstrtoint, int, kstrtoll, long long)

int kstrtobool(const char *s, bool *res)
{
	if (!s)
		return -EINVAL;
	switch (s[0]) {
	case 'y':
	case 'Y':
	case 't':
	case 'T':
	case '1': *res = true; return 0;
	case 'n':
	case 'N':
	case 'f':
	case 'F':
	case '0': *res = false; return 0;
	case 'o':
	case 'O':
		if ((s[1] | 0x20) == 'n' || (s[1] | 0x20) == 'f') {
			*res = (s[1] | 0x20) == 'n';
			return 0;
		}
	}
	return -EINVAL;
}

/* Copy the text of a number from user memory, no more of it than a number can have. */
static int copy_number(char *buf, size_t size, const char __user *s, size_t count)
{
	count = min(count, size - 1);
	if (copy_from_user(buf, s, count))
		return -EFAULT;
	buf[count] = 0;
	return 0;
}

#define FROM_USER(name, type) \
int name##_from_user(const char __user *s, size_t count, unsigned int base, type *res) \
{ \
	char buf[1 + sizeof(type) * 8 + 1 + 1]; /* sign, binary digits, newline, NUL */ \
	return copy_number(buf, sizeof(buf), s, count) ?: name(buf, base, res); \
}
FROM_USER(kstrtoull, unsigned long long)
FROM_USER(kstrtoll, long long)
FROM_USER(kstrtoul, unsigned long)
FROM_USER(kstrtol, long)
FROM_USER(kstrtouint, unsigned int)
FROM_USER(kstrtoint, int)

int kstrtobool_from_user(const char __user *s, size_t count, bool *res)
{
	char buf[4];

	return copy_number(buf, sizeof(buf), s, count) ?: kstrtobool(buf, res);
}

noinline unsigned long long simple_strtoull(const char *cp, char **endp, unsigned int base)
{
	unsigned long long value;

	cp = _parse_integer_fixup_radix(cp, &base);
	cp += _parse_integer(cp, base, &value) & ~KSTRTOX_OVERFLOW;
	if (endp)
		*endp = (char *)cp;
	return value;
}

noinline unsigned long simple_strtoul(const char *cp, char **endp, unsigned int base)
{
	return simple_strtoull(cp, endp, base);
}

noinline long simple_strtol(const char *cp, char **endp, unsigned int base)
{
	return *cp == '-' ? -simple_strtoul(cp + 1, endp, base) : simple_strtoul(cp, endp, base);
}

noinline long long simple_strtoll(const char *cp, char **endp, unsigned int base)
{
	return *cp == '-' ? -simple_strtoull(cp + 1, endp, base) : simple_strtoull(cp, endp, base);
}

/* Read a number; return 2 for "3,", 1 for "3", 3 for "3-", 0 for no number. */
int get_option(char **str, int *pint)
{
	char *cur = *str;
	bool minus;

	if (!cur || !*cur)
		return 0;
	minus = *cur == '-';
	*pint = simple_strtoul(cur + minus, str, 0);
	if (minus)
		*pint = -*pint;
	if (*str == cur + minus)
		return 0;
	if (**str == ',') {
		(*str)++;
		return 2;
	}
	return **str == '-' ? 3 : 1;
}
