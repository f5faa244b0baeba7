// SPDX-License-Identifier: GPL-2.0-or-later
/* Access to memory that may not be there. */
#include <kpfs/untouched.h>
#include <linux/kernel.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/uaccess.h>

void might_fault(void)
{
	if (!in_atomic())
		cond_resched();
}

noinline bool copy_from_kernel_nofault_allowed(const void *unsafe_src, size_t size)
{
	unsigned long vaddr = (unsigned long)unsafe_src;

	return vaddr >= TASK_SIZE_MAX + PAGE_SIZE && (long)vaddr >> 47 == -1;
}

static __always_inline long copy_nofault(void *dst, const void *src, size_t size)
{
	unsigned long left;

	preempt_disable();
	left = copy_user_generic(dst, src, size);
	preempt_enable();
	return left ? -EFAULT : 0;
}

long copy_from_kernel_nofault(void *dst, const void *src, size_t size)
{
	return copy_from_kernel_nofault_allowed(src, size) ? copy_nofault(dst, src, size) : -ERANGE;
}

long copy_to_kernel_nofault(void *dst, const void *src, size_t size)
{
	return copy_nofault(dst, src, size);
}

long copy_from_user_nofault(void *dst, const void __user *src, size_t size)
{
	if (!access_ok(src, size) || user_untouched(src, size))
		return -EFAULT;
	return copy_nofault(dst, src, size);
}

/* Copy a string. Return its length with NUL (count: cut), or -EFAULT. */
long strncpy_from_kernel_nofault(char *dst, const void *unsafe_addr, long count)
{
	const char *src = unsafe_addr;
	long n = 0;

	if (unlikely(count <= 0))
		return 0;
	if (!copy_from_kernel_nofault_allowed(unsafe_addr, count))
		return -ERANGE;
	preempt_disable();
	while (n < count) {
		if (copy_user_generic(dst + n, src + n, 1)) {
			preempt_enable();
			dst[0] = 0;
			return -EFAULT;
		}
		if (!dst[n++])
			break;
	}
	preempt_enable();
	dst[n - 1] = 0;
	return n;
}

long strncpy_from_user_nofault(char *dst, const void __user *unsafe_addr, long count)
{
	long ret;

	if (unlikely(count <= 0))
		return 0;
	preempt_disable();
	ret = strncpy_from_user(dst, unsafe_addr, count);
	preempt_enable();
	if (ret < 0)
		return ret;
	if (user_untouched(unsafe_addr, min(ret + 1, count)))
		return -EFAULT;
	if (ret >= count)
		dst[count - 1] = 0;
	return min(ret + 1, count);
}
