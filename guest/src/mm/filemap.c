// SPDX-License-Identifier: GPL-2.0-or-later
/* The page cache: the contents of files. */
#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#define MAX_FILE_PAGES 1024

static noinline struct page *find_get_entry(struct address_space *mapping, pgoff_t index)
{
	if (index >= mapping->nr_slots || !mapping->pages[index])
		return NULL;
	return mapping->pages[index];
}

noinline struct page *pagecache_get_page(struct address_space *mapping, pgoff_t index)
{
	struct page *page = find_get_entry(mapping, index);

	if (page)
		get_page(page);
	return page;
}

/* Make room for the page at index. */
static noinline int mapping_expand(struct address_space *mapping, pgoff_t index)
{
	unsigned long n = max(mapping->nr_slots, 4UL);
	struct page **pages;

	if (index < mapping->nr_slots)
		return 0;
	if (index >= MAX_FILE_PAGES)
		return -EFBIG;
	while (n <= index)
		n *= 2;
	pages = kcalloc(n, sizeof(*pages), GFP_KERNEL);
	if (!pages)
		return -ENOMEM;
	if (mapping->pages)
		memcpy(pages, mapping->pages, mapping->nr_slots * sizeof(*pages));
	kfree(mapping->pages);
	mapping->pages = pages;
	mapping->nr_slots = n;
	return 0;
}

static noinline int filemap_add_page(struct address_space *mapping, struct page *page,
				     pgoff_t index)
{
	int err = mapping_expand(mapping, index);

	if (err)
		return err;
	page->mapping = mapping;
	page->index = index;
	mapping->pages[index] = page;
	mapping->nrpages++;
	get_page(page);
	return 0;
}

static noinline void delete_from_page_cache(struct address_space *mapping, struct page *page)
{
	mapping->pages[page->index] = NULL;
	mapping->nrpages--;
	page->mapping = NULL;
	put_page(page);
}

static noinline int grab_cache_page_write_begin(struct address_space *mapping, pgoff_t index,
						struct page **pagep)
{
	struct page *page = pagecache_get_page(mapping, index);
	int err = 0;

	if (!page) {
		page = alloc_page(GFP_KERNEL | __GFP_ZERO);
		if (!page)
			return -ENOMEM;
		err = filemap_add_page(mapping, page, index);
		if (err)
			put_page(page);
	}
	*pagep = page;
	return err;
}

static int simple_write_begin(struct file *file, struct address_space *mapping, loff_t pos,
			      unsigned int len, struct page **pagep)
{
	return grab_cache_page_write_begin(mapping, pos >> PAGE_SHIFT, pagep);
}

static int simple_write_end(struct file *file, struct address_space *mapping, loff_t pos,
			    unsigned int copied, struct page *page)
{
	struct inode *inode = mapping->host;

	__set_bit(PG_dirty, &page->flags);
	if (pos + copied > inode->i_size)
		inode->i_size = pos + copied;
	put_page(page);
	return copied;
}

noinline size_t _copy_to_iter(const void *addr, size_t bytes, struct iov_iter *i)
{
	size_t n = min(bytes, i->count), left = 0;

	if (i->kbase) {
		memcpy(i->kbase, addr, n);
		i->kbase += n;
	} else {
		left = copy_to_user(i->base, addr, n);
		i->base += n - left;
	}
	i->count -= n - left;
	return n - left;
}

size_t copy_from_iter(void *addr, size_t bytes, struct iov_iter *i)
{
	size_t n = min(bytes, i->count), left = 0;

	if (i->kbase) {
		memcpy(addr, i->kbase, n);
		i->kbase += n;
	} else {
		left = access_ok(i->base, n) ? copy_user_generic(addr, i->base, n) : n;
		i->base += n - left;
	}
	i->count -= n - left;
	return n - left;
}

static size_t copy_page_to_iter(struct page *page, size_t offset, size_t bytes, struct iov_iter *i)
{
	return copy_to_iter(page_address(page) + offset, bytes, i);
}

static const char zero_page[256] __aligned(64);

static noinline size_t iov_iter_zero(size_t bytes, struct iov_iter *i)
{
	size_t done = 0;

	while (done < bytes) {
		size_t n = copy_to_iter(zero_page, min(bytes - done, sizeof(zero_page)), i);

		if (!n)
			break;
		done += n;
	}
	return done;
}

static noinline ssize_t filemap_read(struct kiocb *iocb, struct iov_iter *iter)
{
	struct address_space *mapping = iocb->ki_filp->f_mapping;
	loff_t size = i_size_read(mapping->host);
	ssize_t done = 0;

	while (iter->count && iocb->ki_pos < size) {
		size_t offset = iocb->ki_pos & ~PAGE_MASK, n, copied;
		struct page *page = pagecache_get_page(mapping, iocb->ki_pos >> PAGE_SHIFT);

		n = min(PAGE_SIZE - offset, iter->count);
		n = min_t(size_t, n, size - iocb->ki_pos);
		copied = page ? copy_page_to_iter(page, offset, n, iter) : iov_iter_zero(n, iter);
		if (page)
			put_page(page);
		iocb->ki_pos += copied;
		done += copied;
		if (copied < n)
			return done ?: -EFAULT;
		cond_resched();
	}
	touch_atime(&iocb->ki_filp->f_path);
	return done;
}

ssize_t generic_file_read_iter(struct kiocb *iocb, struct iov_iter *iter)
{
	return iter->count ? filemap_read(iocb, iter) : 0;
}

static noinline ssize_t generic_write_checks(struct kiocb *iocb, struct iov_iter *from)
{
	if (iocb->ki_filp->f_flags & O_APPEND)
		iocb->ki_pos = i_size_read(file_inode(iocb->ki_filp));
	return iocb->ki_pos + from->count > MAX_FILE_PAGES * PAGE_SIZE ? -EFBIG : from->count;
}

static noinline ssize_t generic_perform_write(struct kiocb *iocb, struct iov_iter *i)
{
	struct address_space *mapping = iocb->ki_filp->f_mapping;
	loff_t pos = iocb->ki_pos;
	ssize_t written = 0;
	int status = 0;

	while (i->count) {
		size_t offset = pos & ~PAGE_MASK, bytes = min(PAGE_SIZE - offset, i->count), copied;
		struct page *page;

		status = simple_write_begin(iocb->ki_filp, mapping, pos, bytes, &page);
		if (status < 0)
			break;
		copied = copy_from_iter(page_address(page) + offset, bytes, i);
		status = simple_write_end(iocb->ki_filp, mapping, pos, copied, page);
		pos += copied;
		written += copied;
		if (copied < bytes) {
			status = -EFAULT;
			break;
		}
		cond_resched();
	}
	if (!written)
		return status;
	iocb->ki_pos += written;
	return written;
}

static noinline ssize_t __generic_file_write_iter(struct kiocb *iocb, struct iov_iter *from)
{
	file_update_time(iocb->ki_filp);
	return generic_perform_write(iocb, from);
}

ssize_t generic_file_write_iter(struct kiocb *iocb, struct iov_iter *from)
{
	ssize_t ret;

	guard(inode)(iocb->ki_filp->f_mapping->host);
	ret = generic_write_checks(iocb, from);
	return ret > 0 ? __generic_file_write_iter(iocb, from) : ret;
}

void truncate_inode_pages(struct address_space *mapping, loff_t lstart)
{
	pgoff_t index = DIV_ROUND_UP(lstart, PAGE_SIZE);
	size_t partial = lstart & ~PAGE_MASK;
	struct page *page = find_get_entry(mapping, lstart >> PAGE_SHIFT);

	if (partial && page)
		memset(page_address(page) + partial, 0, PAGE_SIZE - partial);
	for (; index < mapping->nr_slots && mapping->nrpages; index++) {
		page = mapping->pages[index];
		if (page)
			delete_from_page_cache(mapping, page);
	}
}
