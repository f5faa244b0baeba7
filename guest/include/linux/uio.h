/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/types.h>

struct iovec {
	void __user *iov_base;
	size_t iov_len;
};
struct kvec {
	void *iov_base;
	size_t iov_len;
};
struct iov_iter {
	char __user *base;
	void *kbase;
	size_t count;
	bool write;
};
