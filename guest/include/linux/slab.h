/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/types.h>

#define GFP_KERNEL 0u
#define GFP_ATOMIC 1u
#define GFP_USER 0u
#define GFP_NOWAIT 1u
#define __GFP_ZERO 0x100u
#define SLAB_HWCACHE_ALIGN 0x2000u
#define SLAB_PANIC 0x40000u
#define SLAB_ACCOUNT 0u
#define SLAB_RECLAIM_ACCOUNT 0u

struct kmem_cache;
struct kmem_cache *kmem_cache_create(const char *name, unsigned int size, unsigned int align,
				     slab_flags_t flags, void (*ctor)(void *));
void *kmem_cache_alloc(struct kmem_cache *s, gfp_t flags);
void kmem_cache_free(struct kmem_cache *s, void *x);
#define kmem_cache_zalloc(s, f) kmem_cache_alloc(s, (f) | __GFP_ZERO)
#define KMEM_CACHE(st, f) kmem_cache_create(#st, sizeof(struct st), __alignof__(struct st), f, NULL)
void *__kmalloc(size_t size, gfp_t flags);
void *krealloc(const void *p, size_t size, gfp_t flags);
void kfree(const void *p);
size_t ksize(const void *p);
#define kmalloc(n, f) __kmalloc(n, f)
#define kzalloc(n, f) __kmalloc(n, (f) | __GFP_ZERO)
#define kcalloc(n, s, f) __kmalloc((size_t)(n) * (s), (f) | __GFP_ZERO)
#define kmalloc_array(n, s, f) __kmalloc((size_t)(n) * (s), f)
#define kvfree(p) kfree(p)
void kmem_cache_init(void);
