// SPDX-License-Identifier: GPL-2.0-or-later
/* The page allocator: a buddy system over the memory that Python gives at boot. */
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/string.h>

struct page *mem_map;
unsigned long max_pfn, min_low_pfn;
static struct list_head free_area[MAX_ORDER];
static DEFINE_SPINLOCK(zone_lock);
static unsigned long nr_free;

static inline bool page_is_buddy(unsigned long pfn, unsigned int order)
{
	return pfn >= min_low_pfn && pfn + (1UL << order) <= max_pfn &&
	       test_bit(PG_buddy, &pfn_to_page(pfn)->flags) && pfn_to_page(pfn)->order == order;
}

static __always_inline void add_to_free_list(struct page *page, unsigned int order)
{
	__set_bit(PG_buddy, &page->flags);
	page->order = order;
	list_add(&page->lru, &free_area[order]);
	nr_free += 1UL << order;
}

static void del_page_from_free_list(struct page *page)
{
	__clear_bit(PG_buddy, &page->flags);
	list_del(&page->lru);
	nr_free -= 1UL << page->order;
}

static noinline void __free_one_page(struct page *page, unsigned int order)
{
	unsigned long pfn = page_to_pfn(page);

	while (order < MAX_ORDER - 1) {
		unsigned long buddy = pfn ^ (1UL << order);

		if (!page_is_buddy(buddy, order))
			break;
		del_page_from_free_list(pfn_to_page(buddy));
		pfn &= buddy;
		order++;
	}
	add_to_free_list(pfn_to_page(pfn), order);
}

/* Cut a block of order high down to low. */
static void expand(struct page *page, unsigned int low, unsigned int high)
{
	while (high > low) {
		high--;
		add_to_free_list(page + (1UL << high), high);
	}
}

static struct page *__rmqueue_smallest(unsigned int order)
{
	for (unsigned int o = order; o < MAX_ORDER; o++) {
		struct page *page = list_first_entry_or_null(&free_area[o], struct page, lru);

		if (!page)
			continue;
		del_page_from_free_list(page);
		expand(page, order, o);
		return page;
	}
	return NULL;
}

static void prep_new_page(struct page *page, unsigned int order, gfp_t gfp)
{
	page->flags = 0;
	page->order = order;
	page->mapping = NULL;
	refcount_set(&page->_refcount, 1);
	if (gfp & __GFP_ZERO)
		for (unsigned int i = 0; i < 1u << order; i++)
			clear_page(page_address(page) + i * PAGE_SIZE);
}

static struct page *get_page_from_freelist(gfp_t gfp, unsigned int order)
{
	unsigned long flags;
	struct page *page;

	spin_lock_irqsave(&zone_lock, flags);
	page = __rmqueue_smallest(order);
	spin_unlock_irqrestore(&zone_lock, flags);
	if (page)
		prep_new_page(page, order, gfp);
	return page;
}

struct page *__alloc_pages(gfp_t gfp, unsigned int order)
{
	struct page *page;

	if (WARN_ON_ONCE(order >= MAX_ORDER))
		return NULL;
	page = get_page_from_freelist(gfp, order);
	if (unlikely(!page))
		pr_warn("%s: page allocation failure: order:%u\n", current->comm, order);
	return page;
}

static void free_unref_page(struct page *page, unsigned int order)
{
	guard(spinlock_irqsave)(&zone_lock);
	__free_one_page(page, order);
}

noinline void __free_pages(struct page *page, unsigned int order)
{
	if (refcount_dec_and_test(&page->_refcount))
		free_unref_page(page, order);
}

noinline unsigned long __get_free_pages(gfp_t gfp, unsigned int order)
{
	struct page *page = __alloc_pages(gfp, order);

	return page ? (unsigned long)page_address(page) : 0;
}

unsigned long get_zeroed_page(gfp_t gfp)
{
	return __get_free_pages(gfp | __GFP_ZERO, 0);
}

void free_pages(unsigned long addr, unsigned int order)
{
	if (addr)
		__free_pages(virt_to_page(addr), order);
}

void get_page(struct page *page)
{
	refcount_inc(&page->_refcount);
}

void put_page(struct page *page)
{
	__free_pages(page, page->order);
}

unsigned long nr_free_pages(void)
{
	return nr_free;
}

/* Put the map of pages first; all else is free. */
void __init mem_init(unsigned long start, unsigned long end)
{
	unsigned long pfn, map;

	for (unsigned int i = 0; i < MAX_ORDER; i++)
		INIT_LIST_HEAD(&free_area[i]);
	start = ALIGN(start, PAGE_SIZE);
	min_low_pfn = start >> PAGE_SHIFT;
	max_pfn = end >> PAGE_SHIFT;
	mem_map = __va(start);
	map = (max_pfn - min_low_pfn) * sizeof(struct page);
	memset(mem_map, 0, map);
	pfn = min_low_pfn + DIV_ROUND_UP(map, PAGE_SIZE);
	while (pfn < max_pfn) {
		unsigned int order = MAX_ORDER - 1;

		while (order && ((pfn & ((1UL << order) - 1)) || pfn + (1UL << order) > max_pfn))
			order--;
		add_to_free_list(pfn_to_page(pfn), order);
		pfn += 1UL << order;
	}
}

/* Return true if the free lists hold as many pages as are counted; for tests. */
bool validate_free_area(void)
{
	unsigned long count = 0;
	struct page *page;

	guard(spinlock_irqsave)(&zone_lock);
	for (unsigned int o = 0; o < MAX_ORDER; o++)
		list_for_each_entry(page, &free_area[o], lru) {
			count += 1UL << o;
			if (page->order != o || !test_bit(PG_buddy, &page->flags) ||
			    count > nr_free)
				return false;
		}
	return count == nr_free;
}
