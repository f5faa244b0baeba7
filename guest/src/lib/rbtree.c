// SPDX-License-Identifier: GPL-2.0-or-later
/* Red-black trees. */
#include <linux/rbtree.h>

static inline bool is_red(const struct rb_node *n)
{
	return n && n->red;
}

static void rb_replace(struct rb_node *old, struct rb_node *new, struct rb_root *root)
{
	struct rb_node *parent = old->parent;

	if (!parent)
		root->rb_node = new;
	else if (parent->left == old)
		parent->left = new;
	else
		parent->right = new;
	if (new)
		new->parent = parent;
}

#define RB_ROTATE(name, side, other) \
static noinline void name(struct rb_node *n, struct rb_root *root) \
{ \
	struct rb_node *up = n->other; \
	rb_replace(n, up, root); \
	n->other = up->side; \
	if (up->side) \
		up->side->parent = n; \
	up->side = n; \
	n->parent = up; \
}
RB_ROTATE(rb_rotate_left, left, right)
RB_ROTATE(rb_rotate_right, right, left)

void rb_insert_color(struct rb_node *node, struct rb_root *root)
{
	struct rb_node *parent, *grand, *uncle;

	node->red = true;
	while ((parent = node->parent) && parent->red) {
		bool left = (grand = parent->parent)->left == parent;

		uncle = left ? grand->right : grand->left;
		if (is_red(uncle)) {
			parent->red = uncle->red = false;
			grand->red = true;
			node = grand;
			continue;
		}
		if (node == (left ? parent->right : parent->left)) {
			node = parent;
			if (left)
				rb_rotate_left(node, root);
			else
				rb_rotate_right(node, root);
			parent = node->parent;
		}
		parent->red = false;
		grand->red = true;
		if (left)
			rb_rotate_right(grand, root);
		else
			rb_rotate_left(grand, root);
	}
	root->rb_node->red = false;
}

/* Balance the tree: node, child of parent (node may be NULL), is one black short. */
static noinline void ____rb_erase_color(struct rb_node *node, struct rb_node *parent,
					struct rb_root *root)
{
	while (node != root->rb_node && !is_red(node)) {
		bool left = parent->left == node;
		struct rb_node *sib = left ? parent->right : parent->left;

		if (is_red(sib)) {
			sib->red = false;
			parent->red = true;
			if (left)
				rb_rotate_left(parent, root);
			else
				rb_rotate_right(parent, root);
			sib = left ? parent->right : parent->left;
		}
		if (!is_red(sib->left) && !is_red(sib->right)) {
			sib->red = true;
			node = parent;
			parent = node->parent;
			continue;
		}
		if (!is_red(left ? sib->right : sib->left)) {
			sib->red = true;
			if (left) {
				sib->left->red = false;
				rb_rotate_right(sib, root);
			} else {
				sib->right->red = false;
				rb_rotate_left(sib, root);
			}
			sib = left ? parent->right : parent->left;
		}
		sib->red = parent->red;
		parent->red = false;
		if (left) {
			sib->right->red = false;
			rb_rotate_left(parent, root);
		} else {
			sib->left->red = false;
			rb_rotate_right(parent, root);
		}
		node = root->rb_node;
	}
	if (node)
		node->red = false;
}

void rb_erase(struct rb_node *node, struct rb_root *root)
{
	struct rb_node *child, *parent, *next;
	bool red = node->red;

	if (!node->left || !node->right) {
		child = node->left ? node->left : node->right;
		parent = node->parent;
		rb_replace(node, child, root);
	} else {
		for (next = node->right; next->left;)
			next = next->left;
		red = next->red;
		child = next->right;
		parent = next->parent;
		if (parent == node) {
			parent = next;
		} else {
			rb_replace(next, child, root);
			next->right = node->right;
			next->right->parent = next;
		}
		rb_replace(node, next, root);
		next->left = node->left;
		next->left->parent = next;
		next->red = node->red;
	}
	if (!red)
		____rb_erase_color(child, parent, root);
}

/* Define the outermost node on one side, and the neighbour of a node on the other. */
#define RB_WALK(end, neighbour, side, other) \
struct rb_node *end(const struct rb_root *root) \
{ \
	struct rb_node *n = root->rb_node; \
	while (n && n->side) \
		n = n->side; \
	return n; \
} \
struct rb_node *neighbour(const struct rb_node *node) \
{ \
	struct rb_node *parent; \
	if (node->other) { \
		for (node = node->other; node->side;) \
			node = node->side; \
		return (struct rb_node *)node; \
	} \
	while ((parent = node->parent) && node == parent->other) \
		node = parent; \
	return parent; \
}
RB_WALK(rb_first, rb_next, left, right)
RB_WALK(rb_last, rb_prev, right, left)
