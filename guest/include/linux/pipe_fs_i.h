/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/mutex.h>
#include <linux/wait.h>

struct pipe_inode_info {
	struct mutex mutex;
	wait_queue_head_t rd_wait, wr_wait;
	unsigned int head, tail, readers, writers;
	char *buf;
};
