/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Text that grows in a buffer; len == size + 1: it did not fit. */
#pragma once
#include <linux/types.h>

struct seq_buf {
	char *buffer;
	size_t size, len;
	loff_t readpos;
};
