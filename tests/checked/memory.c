/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Errors of memory, one in each function. With MENDED there is none. */
#include "kernel.h"

static char *allocate(size_t size)
{
	char *p = __kmalloc(size, GFP_KERNEL);

	HIDE(p);
	return p;
}

static noinline void write_behind(void)
{
	volatile char *p = allocate(60);

	p[WRONG(60, 59)] = 1;
	kfree((void *)p);
}

static noinline void read_behind(void)
{
	volatile char *p = allocate(64);

	p[WRONG(64, 63)];
	kfree((void *)p);
}

static noinline void read_before(void)
{
	volatile char *p = allocate(96);

	p[WRONG(-1, 0)];
	kfree((void *)p);
}

static noinline void write_before(void)
{
	volatile long *p = (void *)allocate(256);

	p[WRONG(-1, 0)] = 1;
	kfree((void *)p);
}

static noinline void use_after_free(void)
{
	volatile long *p = (void *)allocate(48);

	ONLY_WRONG(kfree((void *)p));
	p[3];
	WRONG((void)0, kfree((void *)p));
}

static noinline void double_free(void)
{
	char *p = allocate(40);

	kfree(p);
	HIDE(p);
	ONLY_WRONG(kfree(p));
}

static noinline void free_inside(void)
{
	char *p = allocate(96);

	kfree(p + WRONG(8, 0));
}

static noinline void copy_too_much(void)
{
	char *p = allocate(33), from[48];
	size_t size = WRONG(34, 33);

	memset(from, 0, sizeof(from));
	HIDE(size);
	memcpy(p, from, size);
	kfree(p);
}

static noinline void set_too_much(void)
{
	char *p = allocate(50);
	size_t size = WRONG(51, 50);

	HIDE(size);
	memset(p, 0, size);
	kfree(p);
}

static noinline void string_too_long(void)
{
	char *p = allocate(WRONG(5, 6));
	const char *text = "hello";

	HIDE(text);
	strcpy(p, text);
	kfree(p);
}

static noinline void duplicate_too_short(void)
{
	volatile char *p = kstrdup("hello", GFP_KERNEL);

	p[WRONG(6, 5)];
	kfree((void *)p);
}

static noinline void page_after_free(void)
{
	volatile char *p = (void *)__get_free_pages(GFP_KERNEL, 0);

	ONLY_WRONG(free_pages((unsigned long)p, 0));
	p[5];
	WRONG((void)0, free_pages((unsigned long)p, 0));
}

static noinline void behind_page(void)
{
	struct page *page = ALLOC_PAGES(GFP_KERNEL, 0);
	volatile char *p = address_of_page(page);

	p[WRONG(4096, 4095)] = 1;
	__free_pages(page, 0);
}

static noinline void behind_pages(void)
{
	volatile char *p = (void *)__get_free_pages(GFP_KERNEL, 1);

	p[WRONG(8192, 8191)];
	free_pages((unsigned long)p, 1);
}

static noinline void string_behind_page(void)
{
	struct page *page = ALLOC_PAGES(GFP_KERNEL, 0);

	strncpy_from_user(address_of_page(page) + 4000, NULL, WRONG(97, 96));
	__free_pages(page, 0);
}

static noinline void struct_page_after_free(void)
{
	struct page *page = ALLOC_PAGES(GFP_KERNEL, 0);
	volatile char *p = address_of_page(page);

	ONLY_WRONG(__free_pages(page, 0));
	p[5];
	WRONG((void)0, __free_pages(page, 0));
}

static noinline void page_freed_twice(void)
{
	struct page *page = ALLOC_PAGES(GFP_KERNEL, 0);

	__free_pages(page, 0);
	ONLY_WRONG(__free_pages(page, 0));
}

/* No error: the last reference frees the page, and the kernel must have all of it back. */
static noinline void put_pages(void)
{
	for (int i = 0; i < 100; i++) {
		struct page *page = ALLOC_PAGES(GFP_KERNEL, 0);

		if (!__atomic_sub_fetch(&page->refcount, 1, __ATOMIC_SEQ_CST))
			PUT_PAGE(page);
	}
}

static noinline void leak_of_page(void)
{
	struct page *page = ALLOC_PAGES(GFP_KERNEL, 0);

	WRONG((void)0, __free_pages(page, 0));
}

static noinline void vmalloc_after_free(void)
{
	volatile char *p = vmalloc(5000);

	ONLY_WRONG(vfree((void *)p));
	p[4096];
	WRONG((void)0, vfree((void *)p));
}

static noinline void vmalloc_behind(void)
{
	volatile char *p = vmalloc(5000);

	p[WRONG(5000, 4999)];
	vfree((void *)p);
}

static struct kmem_cache *cache;

static noinline void cache_behind(void)
{
	volatile char *p = kmem_cache_alloc(cache, GFP_KERNEL);

	p[WRONG(56, 55)] = 1;
	kmem_cache_free(cache, (void *)p);
}

static noinline void cache_before(void)
{
	volatile char *p = kmem_cache_alloc(cache, GFP_KERNEL);

	p[WRONG(-1, 0)];
	kmem_cache_free(cache, (void *)p);
}

static noinline void cache_after_free(void)
{
	volatile char *p = kmem_cache_alloc(cache, GFP_KERNEL);

	ONLY_WRONG(kmem_cache_free(cache, (void *)p));
	p[7];
	WRONG((void)0, kmem_cache_free(cache, (void *)p));
}

static noinline void leak(void)
{
	char *p = allocate(123);

	WRONG((void)0, kfree(p));
}

static int decided;

static char names[39];
static long behind_names = 1;

static noinline void beside_variable(void)
{
	volatile char *p = names;

	HIDE(p);
	p[WRONG(39, 38)] = behind_names;
}

static volatile struct bits {
	signed int first : 29, second : 30, third : 8, fourth : 20, fifth : 19;
	unsigned int sixth : 30, seventh : 13;
} __attribute__((packed)) bits = { .sixth = 5 };

/* No error: GCC reads 8 bytes at once, of which 5 are the variable's. */
static noinline void last_bits(void)
{
	if (bits.sixth == 6)
		decided++;
}

static noinline void before_large(void)
{
	volatile char *p = allocate(8192);

	p[WRONG(-1, 0)] = 1;
	p[8191] = 1;
	kfree((void *)p);
}

static noinline void behind_large(void)
{
	volatile char *p = allocate(16384);

	p[WRONG(16384, 16383)] = 1;
	kfree((void *)p);
}

static noinline void set_beyond_variable(void)
{
	size_t size = WRONG(40, 39);
	char *p = names;

	HIDE(size);
	HIDE(p);
	memset(p, 0, size);
}

/* The error is the kernel's, which reads behind p: it is found where kmemdup() is looked at. */
static noinline void duplicate_too_much(void)
{
	char *p = allocate(33);

	memset(p, 0, 33);
	kfree(kmemdup(p, WRONG(34, 33), GFP_KERNEL));
	kfree(p);
}

static noinline void free_variable(void)
{
	char *p = names;

	HIDE(p);
	ONLY_WRONG(kfree(p));
}

static noinline void free_other_kind(void)
{
	char *p = allocate(72);

	WRONG(vfree, kfree)(p);
}

static noinline void lock_after_free(void)
{
	unsigned int *lock = __kmalloc(64, GFP_KERNEL | GFP_ZERO);

	ONLY_WRONG(kfree(lock));
	_raw_spin_unlock_irqrestore(lock, _raw_spin_lock_irqsave(lock));
	WRONG((void)0, kfree(lock));
}

struct parts {
	long first;
	int second; /* and 4 bytes that nobody writes to */
};

struct flags { /* whose bits may happen to be as they were */
	unsigned int one : 4;
};

static noinline void never_written(void)
{
	volatile long *p = (void *)allocate(64);
	struct parts *parts = (void *)allocate(sizeof(*parts)), copy;
	volatile struct flags *flags = (void *)allocate(sizeof(*flags));

	p[0] = 1;
	if (p[WRONG(1, 0)] == 5)
		decided++;
	p[1] = p[2]; /* no error: it is copied */
	parts->first = parts->second = 1;
	copy = *parts;
	flags->one = 7;
	if (flags->one == 7) /* no error, though it may be stored over the same bits */
		decided++;
	kfree((void *)flags);
	HIDE(parts);
	*parts = copy;
	kfree((void *)p);
	kfree(parts);
}

static noinline void never_written_in_cache(void)
{
	volatile unsigned char *p = kmem_cache_alloc(cache, GFP_KERNEL | WRONG(0, GFP_ZERO));

	if (p[9])
		decided++;
	kmem_cache_free(cache, (void *)p);
}

static noinline void never_written_to_user(void)
{
	char *p = allocate(24);

	memset(p, 0, WRONG(16, 24));
	HIDE(p);
	_copy_to_user((void *)4096, p, 24);
	kfree(p);
}

static noinline void fill(volatile char *p, int count)
{
	for (int i = 0; i < count; i++)
		p[i] = 0;
}

/* The canary is put back, so that the kernel lives on. */
static noinline void beyond_array(void)
{
	volatile char array[24];

	fill(array, 24);
	ONLY_WRONG({
		unsigned long *p = (void *)array;

		HIDE(p);
		for (int i = 3; i < 8; i++) {
			unsigned long was;

			load(was, p[i]);
			store(was, p[i]);
		}
	});
}

struct answer {
	int kind;
	char name[12]; /* of which one byte is written */
	long words[3];
};

static noinline void use(volatile void *p)
{
	HIDE(p);
}

/* Nothing lies between the two arrays. */
static noinline void copy_into_neighbour(void)
{
	char first[32], second[32], from[64];
	size_t size = WRONG(40, 32);

	memset(from, 0, sizeof(from));
	HIDE(size);
	memcpy(first, from, size);
	use(first);
	use(second);
}

static noinline void fill_some(int *to, int wanted)
{
	HIDE(to);
	if (wanted)
		*to = 5;
}

static noinline void never_written_on_stack(void)
{
	int value;

	fill_some(&value, WRONG(0, 1));
	if (value == 3)
		decided++;
}

static noinline void stack_to_user(void)
{
	struct answer answer;

	WRONG((void)0, memset(&answer, 0, sizeof(answer)));
	answer.kind = 1;
	answer.name[0] = 0;
	answer.words[0] = answer.words[1] = answer.words[2] = 2;
	HIDE(decided);
	_copy_to_user((void *)4096, &answer, sizeof(answer));
}

/* No error: the place on the stack is another function's now, and has been written. */
static noinline void same_place(int depth)
{
	struct answer answer;

	memset(&answer, 0, sizeof(answer));
	use(&answer);
	if (depth)
		same_place(depth - 1);
	_copy_to_user((void *)4096, &answer, sizeof(answer));
}

static int begin(void)
{
	cache = make_cache("kpfs_checked", 56);
	write_behind();
	read_behind();
	read_before();
	write_before();
	use_after_free();
	double_free();
	free_inside();
	copy_too_much();
	set_too_much();
	string_too_long();
	duplicate_too_short();
	page_after_free();
	behind_page();
	behind_pages();
	string_behind_page();
	struct_page_after_free();
	page_freed_twice();
	put_pages();
	leak_of_page();
	vmalloc_after_free();
	vmalloc_behind();
	cache_behind();
	cache_before();
	cache_after_free();
	leak();
	beside_variable();
	beyond_array();
	last_bits();
	before_large();
	behind_large();
	set_beyond_variable();
	duplicate_too_much();
	free_variable();
	free_other_kind();
	lock_after_free();
	never_written();
	never_written_in_cache();
	never_written_to_user();
	copy_into_neighbour();
	never_written_on_stack();
	stack_to_user();
	same_place(3);
	return 0;
}

static void finish(void)
{
	kmem_cache_destroy(cache);
}
