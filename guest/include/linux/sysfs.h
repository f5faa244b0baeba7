/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/fs.h>

struct kobject {
	const char *name;
	struct dentry *sd;
	void *data;
};
struct kobj_attribute {
	const char *name;
	umode_t mode;
	ssize_t (*show)(struct kobject *kobj, struct kobj_attribute *attr, char *buf);
	ssize_t (*store)(struct kobject *kobj, struct kobj_attribute *attr, const char *buf,
			 size_t count);
};
#define __ATTR(n, m, s, t) { .name = #n, .mode = m, .show = s, .store = t }
#define __ATTR_RO(n) __ATTR(n, 0444, n##_show, NULL)
#define __ATTR_RW(n) __ATTR(n, 0644, n##_show, n##_store)
int sysfs_create_files(struct kobject *kobj, struct kobj_attribute *const *attrs);
int sysfs_emit(char *buf, const char *fmt, ...) __printf(2, 3);
struct kobject *kobject_create_and_add(const char *name, const char *parent, void *data);
