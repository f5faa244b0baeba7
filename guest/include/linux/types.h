/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/compiler.h>

typedef unsigned char u8, __u8, uint8_t, unchar;
typedef unsigned short u16, __u16, uint16_t, ushort;
typedef unsigned int u32, __u32, uint32_t, uint;
typedef unsigned long long u64, __u64, uint64_t;
typedef unsigned long ulong;
typedef signed char s8, __s8, int8_t;
typedef short s16, __s16, int16_t;
typedef int s32, __s32, int32_t;
typedef long long s64, __s64, int64_t;
typedef u16 __be16, __le16;
typedef u32 __be32, __wsum;
typedef u16 __sum16;
typedef unsigned long size_t, uintptr_t, __kernel_size_t;
typedef long ssize_t, ptrdiff_t, intptr_t;
typedef long long loff_t, time64_t;
typedef long off_t;
typedef s64 ktime_t;
typedef int pid_t, clockid_t;
typedef unsigned int uid_t, gid_t, gfp_t, fmode_t, dev_t, slab_flags_t;
typedef unsigned short umode_t;
typedef unsigned long ino_t, phys_addr_t, sector_t, pgoff_t, cycles_t;
typedef _Bool bool;

#define true 1
#define false 0
#define NULL ((void *)0)

typedef struct { int counter; } atomic_t;
typedef struct { s64 counter; } atomic64_t, atomic_long_t;
typedef struct { atomic_t refs; } refcount_t;
typedef struct { uid_t val; } kuid_t;
typedef struct { gid_t val; } kgid_t;

struct list_head { struct list_head *next, *prev; };
struct hlist_node { struct hlist_node *next, **pprev; };
struct hlist_head { struct hlist_node *first; };
struct callback_head {
	struct callback_head *next;
	void (*func)(struct callback_head *head);
};
#define rcu_head callback_head

typedef __builtin_va_list va_list;
#define va_start __builtin_va_start
#define va_end __builtin_va_end
#define va_arg __builtin_va_arg
#define va_copy __builtin_va_copy
/* The value of an expression in which list has the arguments behind the parameter last. */
#define with_va_list(list, last, expression) ({ \
	va_list list; \
	va_start(list, last); \
	__typeof__(expression) __v = (expression); \
	va_end(list); \
	__v; })
/* Evaluate an expression with a copy of a list of arguments, given by its address. */
#define with_copied_va_list(list, from, expression) ({ \
	va_list list; \
	va_copy(list, *(from)); \
	__typeof__(expression) __v = (expression); \
	va_end(list); \
	__v; })
