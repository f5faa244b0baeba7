/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Text that grows in a buffer; len == size + 1: it did not fit. */
#ifndef _LINUX_SEQ_BUF_H
#define _LINUX_SEQ_BUF_H
#include <linux/types.h>

struct seq_buf {
	char *buffer;
	size_t size, len;
	loff_t readpos;
};
#endif
