/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Copies from and to user memory. All that can fault is out of line, so that only the
 * primitives have entries in the exception table.
 */
#pragma once
#include <linux/err.h>
#include <linux/preempt.h>
#include <linux/types.h>

#define TASK_SIZE_MAX 0x00007ffffffff000UL
static inline bool access_ok(const void __user *p, unsigned long size)
{
	return (unsigned long)p <= TASK_SIZE_MAX && size <= TASK_SIZE_MAX - (unsigned long)p;
}

unsigned long copy_user_generic(void *to, const void *from, unsigned long n);
unsigned long _copy_to_user(void __user *to, const void *from, unsigned long n);
unsigned long _copy_from_user(void *to, const void __user *from, unsigned long n);
unsigned long clear_user(void __user *to, unsigned long n);
#define copy_to_user(to, from, n) _copy_to_user(to, from, n)
#define copy_from_user(to, from, n) _copy_from_user(to, from, n)
#define __copy_to_user(to, from, n) _copy_to_user(to, from, n)
#define __copy_from_user(to, from, n) _copy_from_user(to, from, n)
/* These neither sleep nor check the range: for handlers of probes, with pagefault_disable(). */
#define __copy_to_user_inatomic(to, from, n) copy_user_generic((void *)(to), from, n)
#define __copy_from_user_inatomic(to, from, n) copy_user_generic(to, (const void *)(from), n)
/* No page is fetched, but for kpfs/untouched.h: whether a fault is mended is said by the exception table alone. */
static inline void pagefault_disable(void) { preempt_disable(); }
static inline void pagefault_enable(void) { preempt_enable(); }
#define put_user(x, p) ({ __typeof__(*(p)) __pu = (x); \
	_copy_to_user(p, &__pu, sizeof(__pu)) ? -EFAULT : 0; })
#define get_user(x, p) ({ unsigned long __gu = 0; /* whose type may not be const, as *(p) */ \
	int __e = _copy_from_user(&__gu, p, sizeof(*(p))) ? -EFAULT : 0; \
	(x) = *(__typeof__(p))&__gu; __e; })

long strncpy_from_user(char *dst, const char __user *src, long count);
long strnlen_user(const char __user *s, long n);
void might_fault(void);
char *strndup_user(const char __user *s, long n);
void *memdup_user(const void __user *src, size_t len);
long copy_from_kernel_nofault(void *dst, const void *src, size_t size);
long copy_to_kernel_nofault(void *dst, const void *src, size_t size);
long copy_from_user_nofault(void *dst, const void __user *src, size_t size);
long strncpy_from_kernel_nofault(char *dst, const void *unsafe_addr, long count);
long strncpy_from_user_nofault(char *dst, const void __user *unsafe_addr, long count);
