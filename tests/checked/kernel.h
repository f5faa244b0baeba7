/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What modules that have errors on purpose need of the kernel, whose headers are not at hand. */
#define NULL ((void *)0)
#define GFP_KERNEL 0xcc0u
#define GFP_ZERO 0x100u
#define HIDE(p) asm volatile("" : "+r"(p)) /* the compiler does not know what it points to */
#define noinline __attribute__((noinline))

#ifdef MENDED
#define WRONG(wrong, right) (right)
#define ONLY_WRONG(statement)
#else
#define WRONG(wrong, right) (wrong)
#define ONLY_WRONG(statement) statement
#endif

typedef unsigned long size_t;

#ifdef NOPROF /* names since Linux 6.10 */
#define __kmalloc __kmalloc_noprof
#define __get_free_pages get_free_pages_noprof
#define vmalloc vmalloc_noprof
#define kmemdup kmemdup_noprof
#define kmem_cache_alloc kmem_cache_alloc_noprof
#endif

struct kmem_cache;
void *__kmalloc(size_t size, unsigned int flags);
void kfree(const void *object);
#ifdef __aarch64__ /* where these are in line in modules, as here */
#define _copy_to_user __arch_copy_to_user
#define _copy_from_user __arch_copy_from_user
#define without_interrupts(flags) \
	asm volatile("mrs %0, daif; msr daifset, #3" : "=r"(flags) : : "memory")
#define with_interrupts(flags) asm volatile("msr daif, %0" : : "r"(flags) : "memory")
#define load(value, from) asm volatile("ldr %0, %1" : "=r"(value) : "Q"(from) : "memory")
#define store(value, to) asm volatile("str %1, %0" : "=Q"(to) : "r"(value) : "memory")

void queued_spin_lock_slowpath(unsigned int *lock, unsigned int value);

static inline void _raw_spin_lock(unsigned int *lock)
{
	unsigned int value, failed;

	asm volatile("1: ldaxr %w0, %2\n\tcbnz %w0, 2f\n\t"
		     "stxr %w1, %w3, %2\n\tcbnz %w1, 1b\n2:"
		     : "=&r"(value), "=&r"(failed), "+Q"(*lock)
		     : "r"(1)
		     : "memory");
	if (value)
		queued_spin_lock_slowpath(lock, value);
}

static inline void _raw_spin_unlock(unsigned int *lock)
{
	asm volatile("stlrb wzr, %0" : "=Q"(*lock) : : "memory");
}

static inline unsigned long _raw_spin_lock_irqsave(unsigned int *lock)
{
	unsigned long flags;

	without_interrupts(flags);
	_raw_spin_lock(lock);
	return flags;
}

static inline void _raw_spin_unlock_irqrestore(unsigned int *lock, unsigned long flags)
{
	_raw_spin_unlock(lock);
	with_interrupts(flags);
}
#else
#define without_interrupts(flags) asm volatile("pushfq; pop %0; cli" : "=r"(flags) : : "memory")
#define with_interrupts(flags) asm volatile("push %0; popfq" : : "r"(flags) : "memory")
#define load(value, from) asm volatile("mov %1, %0" : "=r"(value) : "m"(from) : "memory")
#define store(value, to) asm volatile("mov %1, %0" : "=m"(to) : "r"(value) : "memory")
void _raw_spin_lock(unsigned int *lock);
#ifdef INLINE_UNLOCK /* in kernels without preemption */
static inline void _raw_spin_unlock(unsigned int *lock)
{
	asm volatile("movb $0, %0" : "=m"(*(char *)lock) : : "memory");
}
#else
void _raw_spin_unlock(unsigned int *lock);
#endif
unsigned long _raw_spin_lock_irqsave(unsigned int *lock);
void _raw_spin_unlock_irqrestore(unsigned int *lock, unsigned long flags);
#endif
unsigned long _copy_to_user(void *to, const void *from, unsigned long size);
unsigned long _copy_from_user(void *to, const void *from, unsigned long size);
unsigned long __get_free_pages(unsigned int flags, unsigned int order);
void free_pages(unsigned long addr, unsigned int order);
struct page {
	long flags, words[5];
	int mapcount, refcount, more[2];
};
struct page *ALLOC_PAGES(unsigned int flags, unsigned int order);
void __free_pages(struct page *page, unsigned int order);
void PUT_PAGE(struct page *page);
#ifdef PAGES_AT /* where these are constants */
#define vmemmap_base ((struct page *)PAGES_AT)
#define page_offset_base ((char *)0xffff000000000000)
#else
extern struct page *vmemmap_base;
extern char *page_offset_base;
#endif
#define address_of_page(page) (page_offset_base + ((page) - vmemmap_base) * 4096)
long strncpy_from_user(char *to, const char *from, long size);
void *vmalloc(unsigned long size);
void vfree(const void *addr);
void *kmemdup(const void *from, size_t size, unsigned int flags);
char *kstrdup(const char *text, unsigned int flags);
void *memcpy(void *to, const void *from, size_t size);
void *memset(void *to, int value, size_t size);
char *strcpy(char *to, const char *from);
size_t strlen(const char *text);
void *kmem_cache_alloc(struct kmem_cache *cache, unsigned int flags);
void kmem_cache_free(struct kmem_cache *cache, void *object);
void kmem_cache_destroy(struct kmem_cache *cache);
#ifdef CACHE_ARGS /* since Linux 6.12 */
struct kmem_cache *__kmem_cache_create_args(const char *name, unsigned int size, void *args,
					    unsigned int flags);
static char no_args[64];
#define make_cache(name, size) __kmem_cache_create_args(name, size, no_args, 0)
#else
struct kmem_cache *kmem_cache_create(const char *name, unsigned int size, unsigned int align,
				     unsigned int flags, void (*make)(void *));
#define make_cache(name, size) kmem_cache_create(name, size, 0, 0, NULL)
#endif
