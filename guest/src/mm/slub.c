// SPDX-License-Identifier: GPL-2.0-or-later
/* Object caches: pages cut into objects of one size, free ones linked through themselves. */
#include <linux/jump_label.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/string.h>

struct kmem_cache {
	const char *name;
	unsigned int size, object_size, order, objects;
	slab_flags_t flags;
	spinlock_t lock;
	struct list_head partial; /* pages with a free object */
	unsigned long nr_slabs, nr_objects;
	void (*ctor)(void *);
	struct list_head list;
};

#define KMALLOC_SHIFT_LOW 4
#define KMALLOC_SHIFT_HIGH 12
static struct kmem_cache kmalloc_caches[KMALLOC_SHIFT_HIGH + 1];
static struct kmem_cache boot_kmem_cache;
static LIST_HEAD(slab_caches);
DEFINE_STATIC_KEY_FALSE(init_on_free);

static void kmem_cache_open(struct kmem_cache *s, const char *name, unsigned int size,
			    unsigned int align, slab_flags_t flags, void (*ctor)(void *))
{
	s->name = name;
	s->object_size = size;
	s->size = ALIGN(max(size, 8u), max(align, flags & SLAB_HWCACHE_ALIGN ? 64u : 8u));
	s->order = 0;
	while ((PAGE_SIZE << s->order) < s->size * 4 && s->order < 3)
		s->order++;
	s->objects = (PAGE_SIZE << s->order) / s->size;
	s->flags = flags;
	s->ctor = ctor;
	spin_lock_init(&s->lock);
	INIT_LIST_HEAD(&s->partial);
	list_add_tail(&s->list, &slab_caches);
}

static noinline struct page *new_slab(struct kmem_cache *s, gfp_t flags)
{
	struct page *page = __alloc_pages(flags & ~__GFP_ZERO, s->order);

	if (!page)
		return NULL;
	__set_bit(PG_slab, &page->flags);
	for (unsigned int i = 1; i < 1u << s->order; i++)
		page[i].mapping = (void *)page; /* compound head */
	page->slab_cache = s;
	page->inuse = 0;
	page->freelist = NULL;
	for (unsigned int i = s->objects; i--;) {
		void **object = page_address(page) + i * s->size;

		if (s->ctor)
			s->ctor(object);
		*object = page->freelist;
		page->freelist = object;
	}
	s->nr_slabs++;
	return page;
}

static noinline void discard_slab(struct kmem_cache *s, struct page *page)
{
	for (unsigned int i = 1; i < 1u << s->order; i++)
		page[i].mapping = NULL;
	__clear_bit(PG_slab, &page->flags);
	s->nr_slabs--;
	__free_pages(page, s->order);
}

static noinline void *___slab_alloc(struct kmem_cache *s, gfp_t flags)
{
	struct page *page = new_slab(s, flags);

	if (!page)
		return NULL;
	list_add(&page->lru, &s->partial);
	return page;
}

static __always_inline void *slab_alloc(struct kmem_cache *s, gfp_t gfp)
{
	unsigned long flags;
	struct page *page;
	void **object = NULL;

	spin_lock_irqsave(&s->lock, flags);
	page = list_first_entry_or_null(&s->partial, struct page, lru);
	if (unlikely(!page))
		page = ___slab_alloc(s, gfp);
	if (page) {
		object = page->freelist;
		page->freelist = *object;
		page->inuse++;
		s->nr_objects++;
		if (!page->freelist)
			list_del_init(&page->lru);
	}
	spin_unlock_irqrestore(&s->lock, flags);
	if (object && (gfp & __GFP_ZERO))
		memset(object, 0, s->object_size);
	return object;
}

static noinline void __slab_free(struct kmem_cache *s, struct page *page, void *x)
{
	if (static_branch_unlikely(&init_on_free))
		memset(x, 0, s->object_size);
	guard(spinlock_irqsave)(&s->lock);
	if (!page->freelist)
		list_add_tail(&page->lru, &s->partial);
	*(void **)x = page->freelist;
	page->freelist = x;
	s->nr_objects--;
	if (!--page->inuse && !list_is_last(&page->lru, &s->partial)) {
		list_del(&page->lru);
		discard_slab(s, page);
	}
}

static inline struct page *virt_to_head_page(const void *x)
{
	struct page *page = virt_to_page(x);

	if (!test_bit(PG_slab, &page->flags) && !test_bit(PG_large, &page->flags) && page->mapping)
		page = (void *)page->mapping;
	return page;
}

void *kmem_cache_alloc(struct kmem_cache *s, gfp_t flags)
{
	return slab_alloc(s, flags);
}

void kmem_cache_free(struct kmem_cache *s, void *x)
{
	__slab_free(s, virt_to_head_page(x), x);
}

static noinline struct kmem_cache *kmalloc_slab(size_t size)
{
	unsigned int shift = KMALLOC_SHIFT_LOW;

	while ((1UL << shift) < size)
		shift++;
	return &kmalloc_caches[shift];
}

static noinline void *kmalloc_large(size_t size, gfp_t flags)
{
	unsigned int order = get_order(size);
	struct page *page = __alloc_pages(flags, order);

	if (!page)
		return NULL;
	__set_bit(PG_large, &page->flags);
	return page_address(page);
}

void *__kmalloc(size_t size, gfp_t flags)
{
	if (unlikely(size > 1UL << KMALLOC_SHIFT_HIGH))
		return kmalloc_large(size, flags);
	if (unlikely(!size))
		size = 1;
	return slab_alloc(kmalloc_slab(size), flags);
}

static noinline void free_large_kmalloc(struct page *page)
{
	__clear_bit(PG_large, &page->flags);
	__free_pages(page, page->order);
}

void kfree(const void *x)
{
	struct page *page;

	if (unlikely(!x))
		return;
	page = virt_to_head_page(x);
	if (unlikely(!test_bit(PG_slab, &page->flags))) {
		BUG_ON(!test_bit(PG_large, &page->flags));
		free_large_kmalloc(page);
		return;
	}
	__slab_free(page->slab_cache, page, (void *)x);
	barrier();
}

size_t ksize(const void *p)
{
	struct page *page = virt_to_head_page(p);

	return test_bit(PG_large, &page->flags) ? PAGE_SIZE << page->order : page->slab_cache->size;
}

void *krealloc(const void *p, size_t size, gfp_t flags)
{
	void *ret;

	if (p && ksize(p) >= size)
		return (void *)p;
	ret = __kmalloc(size, flags);
	if (ret && p) {
		memcpy(ret, p, ksize(p));
		kfree(p);
	}
	return ret;
}

struct kmem_cache *kmem_cache_create(const char *name, unsigned int size, unsigned int align,
				     slab_flags_t flags, void (*ctor)(void *))
{
	struct kmem_cache *s = kmem_cache_alloc(&boot_kmem_cache, GFP_KERNEL | __GFP_ZERO);

	if (!s) {
		if (flags & SLAB_PANIC)
			panic("%s: failed to create slab '%s'", __func__, name);
		return NULL;
	}
	kmem_cache_open(s, name, size, align, flags, ctor);
	return s;
}

static void __init create_kmalloc_caches(void)
{
	static const char *const names[] = {
		"kmalloc-16",  "kmalloc-32", "kmalloc-64", "kmalloc-128", "kmalloc-256",
		"kmalloc-512", "kmalloc-1k", "kmalloc-2k", "kmalloc-4k",
	};

	for (unsigned int shift = KMALLOC_SHIFT_LOW; shift <= KMALLOC_SHIFT_HIGH; shift++)
		kmem_cache_open(&kmalloc_caches[shift], names[shift - KMALLOC_SHIFT_LOW],
				1u << shift, 1u << min(shift, 6u), 0, NULL);
}

void __init kmem_cache_init(void)
{
	kmem_cache_open(&boot_kmem_cache, "kmem_cache", sizeof(struct kmem_cache), 64, 0, NULL);
	create_kmalloc_caches();
}

/* Return true if a page's free objects are as many as it says, and all lie in it. */
static bool validate_slab(struct kmem_cache *s, struct page *page)
{
	unsigned long start = (unsigned long)page_address(page);
	unsigned int nr = page->inuse;
	void **object;

	if (!test_bit(PG_slab, &page->flags) || page->slab_cache != s || !page->freelist)
		return false;
	for (object = page->freelist; object; object = *object) {
		unsigned long offset = (unsigned long)object - start;

		if (offset % s->size || offset / s->size >= s->objects || ++nr > s->objects)
			return false;
	}
	return nr == s->objects;
}

static noinline unsigned int validate_slab_cache(struct kmem_cache *s)
{
	unsigned int errors = 0;
	struct page *page;

	guard(spinlock_irqsave)(&s->lock);
	list_for_each_entry(page, &s->partial, lru)
		if (!validate_slab(s, page)) {
			pr_err("slab error in cache '%s': page %p\n", s->name, page_address(page));
			errors++;
			break; /* the list may be torn as well */
		}
	if (s->nr_objects > s->nr_slabs * s->objects)
		errors++;
	return errors;
}

/* Return the number of caches that are not sound; for tests. */
unsigned int validate_slab_caches(void)
{
	struct kmem_cache *s;
	unsigned int errors = 0;

	list_for_each_entry(s, &slab_caches, list)
		errors += validate_slab_cache(s);
	return errors;
}
