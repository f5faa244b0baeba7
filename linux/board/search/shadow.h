/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/*
 * What is known of the memory that checked text has allocated: see shadow.c.
 */
#include "../board.h"

#define NR_OBJECTS 49152
#define NR_OBJECT_SLOTS 65536 /* of the table by their addresses: a power of two */
#define NR_CACHES 64
#define OBJECT_STACK 16
#define RED_ZONE 32
#define NR_RESUMED 16
#define NR_FRAMES 512
/* Fills what nobody has written to. Flags in it that are cleared change it. */
#define NEVER_WRITTEN 0xbff7fdeffdefbff7ull

/* states of an object */
#define OBJECT_GONE 0 /* freed, or nothing is known of it any more */
#define OBJECT_LIVE 1
#define OBJECT_FREED 2 /* but kept, so that nobody else has its memory */

/* A byte for 8 bytes of RAM: 1 to 8 of them are an object's, 0: nothing is known of them, or */
#define SHADOW_GLOBAL 0xf8 /* between variables of a module */
#define SHADOW_CANARY 0xf9 /* of a stack */
#define SHADOW_RED 0xfa    /* beside an object */
#define SHADOW_FREED 0xfd

#ifndef __ASSEMBLER__
struct object {
	u64 addr; /* 0: no object yet */
	u64 size;
	u64 given; /* address that the kernel knows it by */
	u64 begin; /* with what is kept free on both sides */
	u64 end;
	u64 state;    /* OBJECT_* */
	u64 function; /* that has made it: its index */
	u64 frees;    /* what it is, as to who may free it: HOW_CACHE, HOW_PAGES and HOW_ORDER */
	u64 cache;
	u64 at; /* where it was allocated, by what, and by whom */
	u64 owner;
	u64 pid;
	u64 comm[2];
	u64 freed_at;
	u64 freed_pid;
	u64 freed_comm[2];
	u64 next; /* that was freed after it: its index, plus 1 */
	u64 stack[OBJECT_STACK];
	u64 freed_stack[OBJECT_STACK];
};

/* A cache that checked text has made. */
struct own_cache {
	u64 addr;
	u64 size;   /* of its objects, as they were asked for */
	u64 reuses; /* objects may be read when they are freed: SLAB_TYPESAFE_BY_RCU */
	u64 left;   /* bytes before each object that are its own */
};

/* A variable of a module. */
struct variable {
	u64 first;
	u64 end;
};

/* A variable on the stack. */
struct local {
	int64_t offset; /* from the address above its function's frame */
	u64 size;
};

/* A function that has some: the first one's index, and how many. */
struct framed {
	u64 entry;
	u64 first;
	u64 count;
};

/* A call of it that has not returned. */
struct frame {
	u64 top;  /* 0: this one is free */
	u64 word; /* frame_word() */
	u64 entry;
};

/* A function that is about to begin again, when another one has been called before it. */
struct resumed {
	u64 sp;   /* 0: this one is free */
	u64 back; /* where it returns to */
	u64 args[4];
};

struct shadow {
	u64 bytes;    /* address of the bytes for all of RAM */
	u64 no_merge; /* the flag of a cache that shares nothing; likewise the one for reuses */
	u64 typesafe;
	u64 object_size; /* the offset in struct kmem_cache */
	u64 ctor;        /* offsets in struct kmem_cache_args */
	u64 align;
	u64 usersize;
	u64 fills;     /* memory that is not cleared gets NEVER_WRITTEN */
	u64 never;     /* address of a byte for 8 bytes of RAM: those no checked text has written */
	u64 variables; /* address of struct variable, sorted, and how many */
	u64 nr_variables;
	u64 pages; /* address of the kernel's array of struct page, and the size of one */
	u64 page_size;
	u64 refcount; /* offsets in struct page */
	u64 lru;
	u64 free_object; /* addresses of kmem_cache_free() and __free_pages() */
	u64 free_pages;
	u64 nr_objects;
	u64 untracked; /* objects for which there was no room */
	u64 oldest; /* freed objects that are kept: index plus 1 of the first one and the last one */
	u64 newest;
	u64 kept;   /* their bytes */
	u64 keep;   /* at most so many */
	u64 locals; /* address of struct local */
	u64 framed; /* of struct framed, sorted, and how many */
	u64 nr_framed;
	struct frame frames[NR_FRAMES];
	struct resumed resumed[NR_RESUMED];
	u64 nr_caches;
	struct own_cache caches[NR_CACHES];
	u16 slots[NR_OBJECT_SLOTS]; /* by a hash of an address: the object's index, plus 1 */
	struct object objects[NR_OBJECTS];
};
#endif
