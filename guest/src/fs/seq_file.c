// SPDX-License-Identifier: GPL-2.0-or-later
/* Files whose text is made record by record. */
#include <linux/kernel.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

static noinline void *seq_buf_alloc(unsigned long size)
{
	return kmalloc(size, GFP_KERNEL);
}

noinline int seq_open(struct file *file, const struct seq_operations *op)
{
	struct seq_file *p = kzalloc(sizeof(*p), GFP_KERNEL);

	if (!p)
		return -ENOMEM;
	file->private_data = p;
	mutex_init(&p->lock);
	p->op = op;
	p->file = file;
	return 0;
}

static inline void seq_set_overflow(struct seq_file *m)
{
	m->count = m->size;
}

noinline int seq_write(struct seq_file *m, const void *data, size_t len)
{
	if (m->count + len < m->size) {
		memcpy(m->buf + m->count, data, len);
		m->count += len;
		return 0;
	}
	seq_set_overflow(m);
	return -1;
}

void seq_putc(struct seq_file *m, char c)
{
	if (m->count >= m->size)
		return;
	m->buf[m->count++] = c;
}

noinline void seq_puts(struct seq_file *m, const char *s)
{
	seq_write(m, s, strlen(s));
}

noinline void seq_vprintf(struct seq_file *m, const char *fmt, va_list args)
{
	size_t len;

	if (m->count >= m->size)
		return;
	len = vsnprintf(m->buf + m->count, m->size - m->count, fmt, args);
	if (m->count + len < m->size)
		m->count += len;
	else
		seq_set_overflow(m);
}

void seq_printf(struct seq_file *m, const char *fmt, ...)
{
	with_va_list(args, fmt, (seq_vprintf(m, fmt, args), 0));
}

int seq_path(struct seq_file *m, const struct path *path)
{
	char *buf = kmalloc(PATH_MAX, GFP_KERNEL), *p;

	if (!buf)
		return -ENOMEM;
	p = d_path(path, buf, PATH_MAX);
	if (!IS_ERR(p))
		seq_puts(m, p);
	kfree(buf);
	return 0;
}

/* Allocate the first buffer; a buffer of no size cannot grow. */
static int seq_first_buf(struct seq_file *m)
{
	if (m->buf)
		return 0;
	m->size = PAGE_SIZE;
	m->buf = seq_buf_alloc(m->size);
	return m->buf ? 0 : -ENOMEM;
}

static noinline int seq_grow(struct seq_file *m)
{
	kfree(m->buf);
	m->count = 0;
	m->size <<= 1;
	m->buf = seq_buf_alloc(m->size);
	return m->buf ? 0 : -ENOMEM;
}

/* Put the next record into the empty buffer, a larger one if it does not fit, and more that do. */
static noinline int seq_fill(struct seq_file *m)
{
	void *p;
	int err = 0;

	for (;;) {
		m->from = m->count = 0;
		p = m->op->start(m, &m->index);
		if (IS_ERR_OR_NULL(p)) {
			m->op->stop(m, p);
			return PTR_ERR(p);
		}
		err = m->op->show(m, p);
		if (err < 0) {
			m->op->stop(m, p);
			return err;
		}
		if (!seq_has_overflowed(m))
			break;
		m->op->stop(m, p);
		err = seq_grow(m);
		if (err)
			return err;
	}
	for (;;) {
		size_t offs = m->count;

		p = m->op->next(m, p, &m->index);
		if (IS_ERR_OR_NULL(p))
			break;
		err = m->op->show(m, p);
		if (err < 0 || seq_has_overflowed(m)) {
			m->count = offs;
			break;
		}
	}
	m->op->stop(m, p);
	return 0;
}

static noinline int traverse(struct seq_file *m, loff_t offset)
{
	loff_t pos = 0;
	int err = seq_first_buf(m);

	if (err)
		return err;
	m->index = 0;
	m->from = m->count = 0;
	while (pos < offset) {
		err = seq_fill(m);
		if (err)
			return err;
		if (!m->count)
			break;
		if (pos + (loff_t)m->count > offset) {
			m->from = offset - pos;
			m->count -= m->from;
			return 0;
		}
		pos += m->count;
		m->count = 0;
	}
	return 0;
}

ssize_t seq_read(struct file *file, char __user *buf, size_t size, loff_t *ppos)
{
	struct seq_file *m = file->private_data;
	ssize_t copied = 0;
	int err;

	guard(mutex)(&m->lock);
	err = seq_first_buf(m);
	if (!err && (*ppos == 0 || *ppos != m->read_pos)) {
		err = traverse(m, *ppos);
		m->read_pos = *ppos;
	}
	while (!err && size) {
		size_t n;

		if (!m->count) {
			err = seq_fill(m);
			if (err || !m->count)
				break;
		}
		n = min(m->count, size);
		if (copy_to_user(buf + copied, m->buf + m->from, n)) {
			err = -EFAULT;
			break;
		}
		m->count -= n;
		m->from += n;
		size -= n;
		copied += n;
	}
	if (copied) {
		*ppos += copied;
		m->read_pos += copied;
	}
	return copied ?: err;
}

loff_t seq_lseek(struct file *file, loff_t offset, int whence)
{
	struct seq_file *m = file->private_data;

	guard(mutex)(&m->lock);
	if (whence == SEEK_CUR)
		offset += file->f_pos;
	if (whence == SEEK_END || offset < 0)
		return -EINVAL;
	return traverse(m, offset) ?: (m->read_pos = file->f_pos = offset);
}

noinline int seq_release(struct inode *inode, struct file *file)
{
	struct seq_file *m = file->private_data;

	kfree(m->buf);
	kfree(m);
	return 0;
}

struct list_head *seq_list_start(struct list_head *head, loff_t pos)
{
	struct list_head *lh;

	list_for_each(lh, head)
		if (pos-- == 0)
			return lh;
	return NULL;
}

struct list_head *seq_list_next(void *v, struct list_head *head, loff_t *ppos)
{
	struct list_head *lh = ((struct list_head *)v)->next;

	++*ppos;
	return lh == head ? NULL : lh;
}

static void *single_start(struct seq_file *p, loff_t *pos)
{
	return *pos ? NULL : SEQ_START_TOKEN;
}

static void *single_next(struct seq_file *p, void *v, loff_t *pos)
{
	++*pos;
	return NULL;
}

static void single_stop(struct seq_file *p, void *v) {}

int single_open(struct file *file, int (*show)(struct seq_file *, void *), void *data)
{
	struct seq_operations *op = kmalloc(sizeof(*op), GFP_KERNEL);
	int res = -ENOMEM;

	if (!op)
		return res;
	op->start = single_start;
	op->next = single_next;
	op->stop = single_stop;
	op->show = show;
	res = seq_open(file, op);
	if (!res)
		((struct seq_file *)file->private_data)->private = data;
	else
		kfree(op);
	return res;
}

int single_release(struct inode *inode, struct file *file)
{
	const struct seq_operations *op = ((struct seq_file *)file->private_data)->op;
	int res = seq_release(inode, file);

	kfree(op);
	return res;
}
