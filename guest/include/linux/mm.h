/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <kpfs/abi.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/slab.h>

struct kmem_cache;
struct page {
	unsigned long flags;
	struct list_head lru;
	struct kmem_cache *slab_cache;
	void *freelist;
	unsigned int inuse, order;
	refcount_t _refcount;
	struct address_space *mapping;
	pgoff_t index;
};
#define PG_buddy 0
#define PG_slab 1
#define PG_uptodate 2
#define PG_dirty 3
#define PG_large 4
#define MAX_ORDER 11
#define PAGE_OFFSET KPFS_DIRECT_MAP
#define __va(p) ((void *)((unsigned long)(p) + PAGE_OFFSET))
#define __pa(v) ((unsigned long)(v) - PAGE_OFFSET)
extern struct page *mem_map;
extern unsigned long max_pfn, min_low_pfn;
#define pfn_to_page(n) (&mem_map[(n) - min_low_pfn])
#define page_to_pfn(p) ((unsigned long)((p) - mem_map) + min_low_pfn)
#define page_address(p) __va(page_to_pfn(p) << PAGE_SHIFT)
#define virt_to_page(v) pfn_to_page(__pa(v) >> PAGE_SHIFT)

struct page *__alloc_pages(gfp_t gfp, unsigned int order);
void __free_pages(struct page *page, unsigned int order);
unsigned long __get_free_pages(gfp_t gfp, unsigned int order);
unsigned long get_zeroed_page(gfp_t gfp);
void free_pages(unsigned long addr, unsigned int order);
#define alloc_pages(g, o) __alloc_pages(g, o)
#define alloc_page(g) __alloc_pages(g, 0)
#define __get_free_page(g) __get_free_pages(g, 0)
#define free_page(a) free_pages(a, 0)
#ifndef MODULE
#include <kpfs/cleanup.h>
/* Free a page at the end of the block. */
static __always_inline void __free_page_at(char **at)
{
	if (*at)
		free_page((unsigned long)*at);
}
#define __free_page __cleanup(__free_page_at)
#endif
void put_page(struct page *page);
void get_page(struct page *page);
unsigned long nr_free_pages(void);
void mem_init(unsigned long start, unsigned long end);
#define get_order(n) ({ unsigned int __o = 0; while ((PAGE_SIZE << __o) < (size_t)(n)) __o++; __o; })
