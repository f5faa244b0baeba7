/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/seq_file.h>
struct proc_dir_entry {
	const char *name;
	umode_t mode;
	int (*single_show)(struct seq_file *, void *);
	const struct seq_operations *seq_ops;
	void *data;
	struct proc_dir_entry *next;
};
struct proc_dir_entry *proc_create_single_data(const char *name, umode_t mode,
					       int (*show)(struct seq_file *, void *), void *data);
struct proc_dir_entry *proc_create_seq(const char *name, umode_t mode,
				       const struct seq_operations *ops);
#define proc_create_single(n, m, s) proc_create_single_data(n, m, s, NULL)
