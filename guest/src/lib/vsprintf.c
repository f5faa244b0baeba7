// SPDX-License-Identifier: GPL-2.0-or-later
/* Formatted output: %c %s %d %i %u %x %X %o %p (with S s d h x suffixes) %%. */
#include <linux/ctype.h>
#include <linux/fs.h>
#include <linux/kallsyms.h>
#include <linux/kernel.h>
#include <linux/security.h>
#include <linux/slab.h>
#include <linux/string.h>

#define SIGN 1
#define LEFT 2
#define PLUS 4
#define SPACE 8
#define ZEROPAD 16
#define SMALL 32
#define SPECIAL 64

/* Kinds of directives: something of its own, or a number of this length. */
enum { FORMAT_TYPE_CHAR = 1, FORMAT_TYPE_STR, FORMAT_TYPE_PTR };
enum { FORMAT_TYPE_PERCENT = 4, FORMAT_TYPE_INVALID };
enum { FORMAT_TYPE_LONG = 6, FORMAT_TYPE_INT = 8, FORMAT_TYPE_SHORT, FORMAT_TYPE_BYTE };
struct printf_spec {
	unsigned int type;
	int flags, base, width, precision;
};

int kptr_restrict; /* the host writes it: kernel.kptr_restrict */

static inline void put_char(char **buf, char *end, char c)
{
	if (*buf < end)
		**buf = c;
	++*buf;
}

static noinline char *number(char *buf, char *end, unsigned long num, struct printf_spec spec)
{
	char tmp[24], sign = 0, locase = spec.flags & SMALL;
	int i = 0;

	if (spec.flags & SIGN) {
		if ((long)num < 0) {
			sign = '-';
			num = -num;
		} else if (spec.flags & (PLUS | SPACE)) {
			sign = spec.flags & PLUS ? '+' : ' ';
		}
	}
	do {
		tmp[i++] = HEX_LOWER[num % spec.base] &
			   ~(locase || num % spec.base < 10 ? 0 : 0x20);
		num /= spec.base;
	} while (num);
	if (spec.precision < i)
		spec.precision = i;
	spec.width -=
		spec.precision + !!sign + (spec.flags & SPECIAL ? spec.base == 16 ? 2 : 1 : 0);
	if (!(spec.flags & (ZEROPAD | LEFT)))
		while (spec.width-- > 0)
			put_char(&buf, end, ' ');
	if (sign)
		put_char(&buf, end, sign);
	if (spec.flags & SPECIAL) {
		put_char(&buf, end, '0');
		if (spec.base == 16)
			put_char(&buf, end, 'X' | locase);
	}
	if (!(spec.flags & LEFT))
		while (spec.width-- > 0)
			put_char(&buf, end, '0');
	while (spec.precision-- > i)
		put_char(&buf, end, '0');
	while (i)
		put_char(&buf, end, tmp[--i]);
	while (spec.width-- > 0)
		put_char(&buf, end, ' ');
	return buf;
}

static noinline char *string_nocheck(char *buf, char *end, const char *s, struct printf_spec spec)
{
	int len = strnlen(s, spec.precision < 0 ? INT_MAX : spec.precision), i;

	if (!(spec.flags & LEFT))
		for (; spec.width > len; spec.width--)
			put_char(&buf, end, ' ');
	for (i = 0; i < len; i++)
		put_char(&buf, end, s[i]);
	for (; spec.width > len; spec.width--)
		put_char(&buf, end, ' ');
	return buf;
}

static noinline char *string(char *buf, char *end, const char *s, struct printf_spec spec)
{
	if ((unsigned long)s < PAGE_SIZE)
		s = s ? "(efault)" : "(null)";
	return string_nocheck(buf, end, s, spec);
}

static noinline char *symbol_string(char *buf, char *end, void *ptr, struct printf_spec spec,
				    char kind)
{
	char sym[KSYM_SYMBOL_LEN];

	if (kind == 's')
		sprint_symbol_no_offset(sym, (unsigned long)ptr);
	else if (kind == 'B')
		sprint_backtrace(sym, (unsigned long)ptr);
	else
		sprint_symbol(sym, (unsigned long)ptr);
	return string_nocheck(buf, end, sym, spec);
}

static noinline char *dentry_name(char *buf, char *end, const struct dentry *d,
				  struct printf_spec spec)
{
	return string_nocheck(buf, end, d ? d->d_name.name : "(null)", spec);
}

static noinline char *pointer_string(char *buf, char *end, const void *ptr, struct printf_spec spec)
{
	spec.base = 16;
	spec.flags |= SMALL;
	if (spec.width == -1) {
		spec.width = 16;
		spec.flags |= ZEROPAD;
	}
	return number(buf, end, (unsigned long)ptr, spec);
}

/* Print a pointer hashed, as user space is not to know where things are. */
static noinline char *ptr_to_id(char *buf, char *end, const void *ptr, struct printf_spec spec)
{
	unsigned long v = (unsigned long)ptr;

	if (v)
		v = (u32)((v ^ v >> 29) * 0x9e3779b97f4a7c15UL >> 32);
	return pointer_string(buf, end, (void *)v, spec);
}

/* Print "%16ph": that many bytes; C, D and N say what stands between them. */
static noinline char *hex_string(char *buf, char *end, const u8 *addr, struct printf_spec spec,
				 char kind)
{
	char between = kind == 'C' ? ':' : kind == 'D' ? '-' : kind == 'N' ? 0 : ' ';
	int i, len = spec.width > 0 ? min(spec.width, 64) : 1;

	if (!spec.width)
		return buf;
	spec.width = -1;
	if (!addr)
		return string_nocheck(buf, end, "(null)", spec);
	for (i = 0; i < len; i++) {
		if (i && between)
			put_char(&buf, end, between);
		put_char(&buf, end, HEX_LOWER[addr[i] >> 4]);
		put_char(&buf, end, HEX_LOWER[addr[i] & 15]);
	}
	return buf;
}

/* Print a pointer as kernel.kptr_restrict lets the current task see it. */
static noinline char *restricted_pointer(char *buf, char *end, const void *ptr,
					 struct printf_spec spec)
{
	if (!kptr_restrict)
		return ptr_to_id(buf, end, ptr, spec);
	if (kptr_restrict == 1 && !in_task()) {
		if (spec.width == -1)
			spec.width = 16;
		return string_nocheck(buf, end, "pK-error", spec);
	}
	if (kptr_restrict != 1 || !capable(CAP_SYSLOG))
		ptr = NULL;
	return pointer_string(buf, end, ptr, spec);
}

static noinline char *pointer(const char *fmt, char *buf, char *end, void *ptr,
			      struct printf_spec spec)
{
	switch (*fmt) {
	case 'S':
	case 's':
	case 'B': return symbol_string(buf, end, ptr, spec, *fmt);
	case 'd': return dentry_name(buf, end, ptr, spec);
	case 'h': return hex_string(buf, end, ptr, spec, fmt[1]);
	case 'x': return pointer_string(buf, end, ptr, spec);
	case 'K': return restricted_pointer(buf, end, ptr, spec);
	default:  return ptr_to_id(buf, end, ptr, spec);
	}
}

static noinline int skip_atoi(const char **s)
{
	int i = 0;

	while (isdigit(**s))
		i = i * 10 + *(*s)++ - '0';
	return i;
}

static noinline const char *format_flags(const char *fmt, struct printf_spec *spec)
{
	for (;; fmt++) {
		switch (*fmt) {
		case '-': spec->flags |= LEFT; break;
		case '+': spec->flags |= PLUS; break;
		case ' ': spec->flags |= SPACE; break;
		case '#': spec->flags |= SPECIAL; break;
		case '0': spec->flags |= ZEROPAD; break;
		default:  return fmt;
		}
	}
}

static noinline const char *format_size(const char *fmt, struct printf_spec *spec)
{
	spec->type = FORMAT_TYPE_INT;
	if (*fmt == 'z' || *fmt == 't' || *fmt == 'l') {
		spec->type = FORMAT_TYPE_LONG;
		fmt += fmt[0] == 'l' && fmt[1] == 'l' ? 2 : 1;
	} else if (*fmt == 'h') {
		spec->type = fmt[1] == 'h' ? FORMAT_TYPE_BYTE : FORMAT_TYPE_SHORT;
		fmt += fmt[1] == 'h' ? 2 : 1;
	}
	return fmt;
}

/* Read what comes after '%'; return the first character behind it. */
static noinline const char *format_decode(const char *fmt, struct printf_spec *spec, va_list *args)
{
	*spec = (struct printf_spec){ .base = 10, .width = -1, .precision = -1 };
	fmt = format_flags(fmt, spec);
	if (isdigit(*fmt)) {
		spec->width = skip_atoi(&fmt);
	} else if (*fmt == '*') {
		fmt++;
		spec->width = va_arg(*args, int);
		if (spec->width < 0) {
			spec->width = -spec->width;
			spec->flags |= LEFT;
		}
	}
	if (*fmt == '.') {
		fmt++;
		spec->precision = *fmt == '*' ? (fmt++, va_arg(*args, int)) : skip_atoi(&fmt);
		spec->precision = max(spec->precision, 0);
	}
	fmt = format_size(fmt, spec);
	switch (*fmt) {
	case 'c': spec->type = FORMAT_TYPE_CHAR; break;
	case 's': spec->type = FORMAT_TYPE_STR; break;
	case 'p': spec->type = FORMAT_TYPE_PTR; break;
	case '%': spec->type = FORMAT_TYPE_PERCENT; break;
	case 'o': spec->base = 8; break;
	case 'x':
		spec->flags |= SMALL;
		spec->base = 16;
		break;
	case 'X': spec->base = 16; break;
	case 'd':
	case 'i': spec->flags |= SIGN; break;
	case 'u': break;
	default:  spec->type = FORMAT_TYPE_INVALID; return fmt;
	}
	return fmt + 1;
}

static noinline char *format_number(char *buf, char *end, struct printf_spec spec, va_list *args)
{
	bool sign = spec.flags & SIGN;
	unsigned long num;
	int i;

	if (spec.type == FORMAT_TYPE_LONG)
		return number(buf, end, va_arg(*args, unsigned long), spec);
	i = va_arg(*args, int);
	if (spec.type == FORMAT_TYPE_BYTE)
		num = sign ? (unsigned long)(s8)i : (u8)i;
	else if (spec.type == FORMAT_TYPE_SHORT)
		num = sign ? (unsigned long)(s16)i : (u16)i;
	else
		num = sign ? (unsigned long)i : (u32)i;
	return number(buf, end, num, spec);
}

int vsnprintf(char *buf, size_t size, const char *fmt, va_list args_in)
{
	char *str = buf, *end = buf + size, c[2] = "";
	struct printf_spec spec;
	va_list args;

	if (end < buf) { /* sprintf() to where the address space ends before INT_MAX bytes */
		end = (char *)-1;
		size = end - buf;
	}
	va_copy(args, args_in);
	while (*fmt) {
		if (*fmt != '%') {
			put_char(&str, end, *fmt++);
			continue;
		}
		fmt = format_decode(fmt + 1, &spec, &args);
		switch (spec.type) {
		case FORMAT_TYPE_CHAR:
			c[0] = va_arg(args, int);
			spec.precision = 1;
			str = string_nocheck(str, end, c, spec);
			break;
		case FORMAT_TYPE_STR: str = string(str, end, va_arg(args, char *), spec); break;
		case FORMAT_TYPE_PTR:
			str = pointer(fmt, str, end, va_arg(args, void *), spec);
			while (isalnum(*fmt))
				fmt++;
			break;
		case FORMAT_TYPE_PERCENT: put_char(&str, end, '%'); break;
		case FORMAT_TYPE_INVALID: put_char(&str, end, '%'); break;
		default:                  str = format_number(str, end, spec, &args);
		}
	}
	va_end(args);
	if (size)
		*(str < end ? str : end - 1) = 0;
	return str - buf;
}

noinline int vscnprintf(char *buf, size_t size, const char *fmt, va_list args)
{
	int i = vsnprintf(buf, size, fmt, args);

	return likely((size_t)i < size) ? i : size ? (int)size - 1 : 0;
}

int snprintf(char *buf, size_t size, const char *fmt, ...)
{
	return with_va_list(args, fmt, vsnprintf(buf, size, fmt, args));
}

int scnprintf(char *buf, size_t size, const char *fmt, ...)
{
	return with_va_list(args, fmt, vscnprintf(buf, size, fmt, args));
}

int vsprintf(char *buf, const char *fmt, va_list args)
{
	return vsnprintf(buf, INT_MAX, fmt, args);
}

int sprintf(char *buf, const char *fmt, ...)
{
	return with_va_list(args, fmt, vsnprintf(buf, INT_MAX, fmt, args));
}

noinline char *kvasprintf(gfp_t gfp, const char *fmt, va_list args)
{
	unsigned int len = vsnprintf(NULL, 0, fmt, args);
	char *p = kmalloc(len + 1, gfp);

	if (p)
		vsnprintf(p, len + 1, fmt, args);
	return p;
}

char *kasprintf(gfp_t gfp, const char *fmt, ...)
{
	return with_va_list(args, fmt, kvasprintf(gfp, fmt, args));
}
