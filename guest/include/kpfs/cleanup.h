/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Give back at the end of a block what was taken in it, whichever way the block is left:
 *
 *	guard(mutex)(&lock);                      locked up to the end of the block
 *	struct file *f __free(fput) = fget(fd);   put at the end, unless it is NULL
 */
#pragma once

#define __cleanup(function) __attribute__((__cleanup__(function)))

/* Define a guard: begin is done where it stands, end at the end, each for a pointer called it. */
#define DEFINE_GUARD(name, type, begin, end) \
	static __always_inline type *__guard_##name(type *it) { begin; return it; } \
	static __always_inline void __unguard_##name(type **at) { type *it = *at; end; }
#define guard(name) __auto_type __UNIQUE_ID(guard) __cleanup(__unguard_##name) = __guard_##name

/* Define a guard that remembers flags, for a lock that turns interrupts off. */
#define DEFINE_GUARD_FLAGS(name, type, begin, end) \
	struct guarded_##name { type *it; unsigned long flags; }; \
	static __always_inline struct guarded_##name __guard_##name(type *it) \
	{ unsigned long flags; begin; return (struct guarded_##name){ it, flags }; } \
	static __always_inline void __unguard_##name(struct guarded_##name *at) \
	{ type *it = at->it; unsigned long flags = at->flags; end; }

/* Let variables of a type be given to function at the end, unless they are NULL then. */
#define DEFINE_FREE(function, type) \
	static __always_inline void __free_##function(type **at) { if (*at) function(*at); }
#define __free(function) __cleanup(__free_##function)
