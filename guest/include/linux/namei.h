/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/fs.h>

#define MAXSYMLINKS 40
#define MAX_NESTED_LINKS 8
enum { LAST_NORM, LAST_ROOT, LAST_DOT, LAST_DOTDOT };

struct nameidata {
	struct path path;
	struct qstr last;
	struct path root;
	unsigned int flags;
	int last_type;
	int depth, total_link_count;
	struct filename *name;
	int dfd;
};
static inline void set_nameidata(struct nameidata *nd, int dfd, struct filename *name)
{
	*nd = (struct nameidata){ .dfd = dfd, .name = name };
}
int path_init(struct nameidata *nd, unsigned int flags);
void terminate_walk(struct nameidata *nd);
int complete_walk(struct nameidata *nd);
int link_path_walk(const char *name, struct nameidata *nd);
int walk_component(struct nameidata *nd, bool trailing);
int step_into(struct nameidata *nd, struct dentry *dentry, bool trailing);
const char *handle_dots(struct nameidata *nd, int type);
struct dentry *__lookup_slow(const struct qstr *name, struct dentry *dir, unsigned int flags);
struct dentry *filename_create(int dfd, struct filename *name, struct path *path,
			       unsigned int flags);
void done_path_create(struct path *path, struct dentry *dentry);
int filename_parentat(int dfd, struct filename *name, struct path *parent, struct qstr *last,
		      int *type);
struct dentry *__lookup_hash(const struct qstr *name, struct dentry *base, unsigned int flags);
