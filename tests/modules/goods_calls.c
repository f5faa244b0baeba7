// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Defines trace events (goods.h), and makes a record of each when its file in debugfs, goods, is
 * written. It uses nothing but Linux's interface, so that a real kernel can be asked the same.
 */
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#define CREATE_TRACE_POINTS
#include "goods.h"

static const int list[] = { 1, -2, 3 };
static struct dentry *dir;
static int sold;

static ssize_t goods_write(struct file *file, const char __user *buf, size_t len, loff_t *pos)
{
	char byte;

	if (get_user(byte, buf))
		return -EFAULT;
	if (byte != '1')
		return -EINVAL;
	sold++;
	trace_goods_in("a long name of goods", sold, list, sold % 4, sold | 0x10);
	trace_goods_out(sold, -sold);
	trace_goods_lost(sold, 7);
	trace_goods_rare(sold);
	if (trace_goods_back_enabled())
		trace_goods_back(-1, 5);
	return len;
}
static const struct file_operations goods_fops = { .owner = THIS_MODULE, .write = goods_write };

static int __init goods_init(void)
{
	trace_goods_out(0, 0);
	dir = debugfs_create_file("goods", 0200, NULL, NULL, &goods_fops);
	return 0;
}

static void __exit goods_exit(void)
{
	debugfs_remove(dir);
}
module_init(goods_init);
module_exit(goods_exit);
MODULE_LICENSE("GPL");
