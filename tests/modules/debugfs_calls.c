// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Files of its own in debugfs, one of each kind, and a probe that counts in one of them. It uses
 * nothing but Linux's interface, so that a real kernel can be asked the same.
 */
#include <linux/debugfs.h>
#include <linux/fs.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

static char *symbol = "__x64_sys_getppid";
module_param(symbol, charp, 0444);

static struct dentry *dir, *left, *sub, *empty;
static u8 small = 200;
static u16 medium = 0xabc;
static u32 hits, number = 7, hex = 0xbeef;
static u64 big = ~0ULL;
static unsigned long word = 1;
static size_t size = 4096;
static bool flag = true;
static atomic_t count = ATOMIC_INIT(-3);
static char text[16] = "as it was";
static struct debugfs_blob_wrapper blob = { .data = "a blob\n", .size = 7 };
static u32 array[] = { 1, 22, 333 };
static struct debugfs_u32_array all = { .array = array, .n_elements = 3 };

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	hits++;
	return 0;
}
static struct kprobe kp = { .pre_handler = pre };

/* ---- by hand */
static ssize_t text_read(struct file *file, char __user *buf, size_t len, loff_t *ppos)
{
	char *s = file->private_data;

	return simple_read_from_buffer(buf, len, ppos, s, strlen(s));
}

static ssize_t text_write(struct file *file, const char __user *buf, size_t len, loff_t *ppos)
{
	char *s = file->private_data;
	ssize_t n;

	if (len >= sizeof(text))
		return -ENOSPC;
	n = simple_write_to_buffer(s, sizeof(text) - 1, ppos, buf, len);
	if (n > 0)
		s[*ppos] = 0;
	return n;
}

static const struct file_operations text_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.read = text_read,
	.write = text_write,
	.llseek = default_llseek,
};

/* ---- by seq_file */
static int lines_show(struct seq_file *m, void *v)
{
	int i, *n = m->private;

	for (i = 1; i <= *n; i++)
		seq_printf(m, "line %d of %d\n", i, *n);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(lines);
static int nr_lines = 3;

/* ---- by two functions */
static int twice_get(void *data, u64 *val)
{
	*val = 2ULL * *(u32 *)data;
	return 0;
}

static int twice_set(void *data, u64 val)
{
	if (val & 1)
		return -EDOM;
	*(u32 *)data = val / 2;
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(twice_fops, twice_get, twice_set, "%llu\n");
DEFINE_SIMPLE_ATTRIBUTE(plain_fops, twice_get, NULL, "twice is %llu\n");

static int only_opens(struct inode *inode, struct file *file)
{
	return inode->i_private ? 0 : -EBUSY;
}
static const struct file_operations bare_fops = { .owner = THIS_MODULE, .open = only_opens };

static int __init debugfs_calls_init(void)
{
	dir = debugfs_create_dir("calls", NULL);
	if (IS_ERR(dir))
		return PTR_ERR(dir);
	debugfs_create_u8("u8", 0644, dir, &small);
	debugfs_create_u16("u16", 0644, dir, &medium);
	debugfs_create_u32("u32", 0644, dir, &number);
	debugfs_create_u64("u64", 0644, dir, &big);
	debugfs_create_ulong("ulong", 0644, dir, &word);
	debugfs_create_x8("x8", 0444, dir, &small);
	debugfs_create_x16("x16", 0444, dir, &medium);
	debugfs_create_x32("x32", 0600, dir, &hex);
	debugfs_create_x64("x64", 0444, dir, &big);
	debugfs_create_size_t("size_t", 0444, dir, &size);
	debugfs_create_atomic_t("atomic_t", 0644, dir, &count);
	debugfs_create_bool("bool", 0644, dir, &flag);
	debugfs_create_blob("blob", 0444, dir, &blob);
	debugfs_create_u32_array("array", 0444, dir, &all);
	debugfs_create_u32("hits", 0444, dir, &hits);
	debugfs_create_u32("wonly", 0200, dir, &number);
	debugfs_create_file("text", 0644, dir, text, &text_fops);
	debugfs_create_file("lines", 0444, dir, &nr_lines, &lines_fops);
	debugfs_create_file("twice", 0644, dir, &number, &twice_fops);
	debugfs_create_file_unsafe("plain", 0644, dir, &number, &plain_fops);
	debugfs_create_file("bare", 0644, dir, text, &bare_fops);
	debugfs_create_file("busy", 0644, dir, NULL, &bare_fops);
	sub = debugfs_create_dir("sub", dir);
	debugfs_create_u32("lines", 0644, sub, (u32 *)&nr_lines);
	debugfs_create_dir("empty", sub);
	left = debugfs_create_dir("calls_left", NULL);

	pr_info("calls: again %d\n", PTR_ERR_OR_ZERO(debugfs_create_dir("calls", NULL)));
	pr_info("calls: file again %d\n",
		PTR_ERR_OR_ZERO(debugfs_create_file("u32", 0644, dir, text, &text_fops)));
	pr_info("calls: kprobes %d\n", PTR_ERR_OR_ZERO(debugfs_create_dir("kprobes", NULL)));
	pr_info("calls: below an error %d\n",
		PTR_ERR_OR_ZERO(debugfs_create_dir("x", ERR_PTR(-EXDEV))));
	pr_info("calls: initialized %d\n", debugfs_initialized());
	empty = debugfs_lookup("empty", sub);
	debugfs_remove(empty);
	dput(empty);
	pr_info("calls: found %d and %d\n", debugfs_lookup("empty", sub) != NULL,
		debugfs_lookup("nothing", NULL) != NULL);
	debugfs_remove(NULL);
	debugfs_remove(ERR_PTR(-ENODEV));
	kp.symbol_name = symbol;
	return register_kprobe(&kp);
}

static void __exit debugfs_calls_exit(void)
{
	unregister_kprobe(&kp);
	debugfs_remove(left);
	debugfs_remove_recursive(dir);
}

module_init(debugfs_calls_init);
module_exit(debugfs_calls_exit);
MODULE_LICENSE("GPL");
