/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <generated/autoconf.h>
#include <linux/bug.h>
#include <linux/panic.h>
#include <linux/err.h>
#include <linux/limits.h>
#include <linux/printk.h>
#include <linux/types.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define ALIGN(x, a) (((x) + ((__typeof__(x))(a) - 1)) & ~((__typeof__(x))(a) - 1))
#define ALIGN_DOWN(x, a) ((x) & ~((__typeof__(x))(a) - 1))
#define PTR_ALIGN(p, a) ((__typeof__(p))ALIGN((unsigned long)(p), (a)))
#define round_up(x, y) ALIGN(x, y)
#define round_down(x, y) ALIGN_DOWN(x, y)
#define DIV_ROUND_UP(n, d) (((n) + (d) - 1) / (d))
#define BITS_TO_LONGS(nr) DIV_ROUND_UP(nr, 64)
#define min(a, b) ({ __typeof__(a) __a = (a); __typeof__(b) __b = (b); __a < __b ? __a : __b; })
#define max(a, b) ({ __typeof__(a) __a = (a); __typeof__(b) __b = (b); __a > __b ? __a : __b; })
#define min_t(t, a, b) min((t)(a), (t)(b))
#define max_t(t, a, b) max((t)(a), (t)(b))
#define clamp(v, lo, hi) min(max(v, lo), hi)
#define swap(a, b) do { __typeof__(a) __t = (a); (a) = (b); (b) = __t; } while (0)
#define abs(x) ({ __typeof__(x) __x = (x); __x < 0 ? -__x : __x; })
#define upper_32_bits(n) ((u32)((n) >> 32))
#define lower_32_bits(n) ((u32)(n))
#define might_sleep() do { cond_resched(); } while (0)
#define KTIME_MAX ((s64)(~0ULL >> 1))
#define PAGE_SHIFT 12
#define PAGE_SIZE 4096UL
#define PAGE_MASK (~(PAGE_SIZE - 1))
#define NSEC_PER_SEC 1000000000L
#define NSEC_PER_MSEC 1000000L
#define NSEC_PER_USEC 1000L
#define HZ CONFIG_HZ
#define TICK_NSEC (NSEC_PER_SEC / HZ)
#define HEX_LOWER "0123456789abcdef"

int sprintf(char *buf, const char *fmt, ...) __printf(2, 3);
int vsprintf(char *buf, const char *fmt, va_list args);
int snprintf(char *buf, size_t size, const char *fmt, ...) __printf(3, 4);
int scnprintf(char *buf, size_t size, const char *fmt, ...) __printf(3, 4);
int vsnprintf(char *buf, size_t size, const char *fmt, va_list args);
int vscnprintf(char *buf, size_t size, const char *fmt, va_list args);
char *kasprintf(gfp_t gfp, const char *fmt, ...) __printf(2, 3);
char *kvasprintf(gfp_t gfp, const char *fmt, va_list args);
int kstrtoull(const char *s, unsigned int base, unsigned long long *res);
int kstrtoll(const char *s, unsigned int base, long long *res);
static inline int kstrtoul(const char *s, unsigned int base, unsigned long *res)
{
	return kstrtoull(s, base, (unsigned long long *)res);
}
static inline int kstrtol(const char *s, unsigned int base, long *res)
{
	return kstrtoll(s, base, (long long *)res);
}
int kstrtoint(const char *s, unsigned int base, int *res);
int kstrtouint(const char *s, unsigned int base, unsigned int *res);
int kstrtobool(const char *s, bool *res);
int kstrtoull_from_user(const char __user *s, size_t n, unsigned int base, unsigned long long *res);
int kstrtoll_from_user(const char __user *s, size_t n, unsigned int base, long long *res);
int kstrtoul_from_user(const char __user *s, size_t n, unsigned int base, unsigned long *res);
int kstrtol_from_user(const char __user *s, size_t n, unsigned int base, long *res);
int kstrtouint_from_user(const char __user *s, size_t n, unsigned int base, unsigned int *res);
int kstrtoint_from_user(const char __user *s, size_t n, unsigned int base, int *res);
int kstrtobool_from_user(const char __user *s, size_t n, bool *res);
unsigned long simple_strtoul(const char *cp, char **endp, unsigned int base);
unsigned long long simple_strtoull(const char *cp, char **endp, unsigned int base);
long simple_strtol(const char *cp, char **endp, unsigned int base);
long long simple_strtoll(const char *cp, char **endp, unsigned int base);
int get_option(char **str, int *pint);
int hex_to_bin(unsigned char ch);
int kernel_text_address(unsigned long addr);
