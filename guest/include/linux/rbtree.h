/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/types.h>

struct rb_node {
	struct rb_node *parent, *left, *right;
	bool red;
};
struct rb_root { struct rb_node *rb_node; };
struct rb_root_cached {
	struct rb_root rb_root;
	struct rb_node *rb_leftmost;
};

#define RB_ROOT (struct rb_root){ NULL }
#define RB_ROOT_CACHED (struct rb_root_cached){ { NULL }, NULL }
#define rb_entry(p, t, m) container_of(p, t, m)
#define RB_EMPTY_ROOT(r) ((r)->rb_node == NULL)
#define RB_EMPTY_NODE(n) ((n)->parent == (n))
#define RB_CLEAR_NODE(n) ((n)->parent = (n))

static inline void rb_link_node(struct rb_node *n, struct rb_node *parent, struct rb_node **link)
{
	n->parent = parent;
	n->left = n->right = NULL;
	*link = n;
}

void rb_insert_color(struct rb_node *node, struct rb_root *root);
void rb_erase(struct rb_node *node, struct rb_root *root);
struct rb_node *rb_first(const struct rb_root *root);
struct rb_node *rb_last(const struct rb_root *root);
struct rb_node *rb_next(const struct rb_node *node);
struct rb_node *rb_prev(const struct rb_node *node);
#define rb_first_cached(r) ((r)->rb_leftmost)

/* Add a node by less(), keeping the leftmost one; return true if it is the new leftmost. */
static __always_inline bool rb_add_cached(struct rb_node *node, struct rb_root_cached *tree,
					  bool (*less)(struct rb_node *, const struct rb_node *))
{
	struct rb_node **link = &tree->rb_root.rb_node, *parent = NULL;
	bool leftmost = true;

	while (*link) {
		parent = *link;
		if (less(node, parent)) {
			link = &parent->left;
		} else {
			link = &parent->right;
			leftmost = false;
		}
	}
	rb_link_node(node, parent, link);
	rb_insert_color(node, &tree->rb_root);
	if (leftmost)
		tree->rb_leftmost = node;
	return leftmost;
}

static inline void rb_erase_cached(struct rb_node *node, struct rb_root_cached *tree)
{
	if (tree->rb_leftmost == node)
		tree->rb_leftmost = rb_next(node);
	rb_erase(node, &tree->rb_root);
}
