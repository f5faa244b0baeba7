/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A call site is "call __SCT__name", a trampoline that jumps to the function; the site is
 * recorded in .static_call_sites (address and key, both relative to their own place), as
 * it may be patched to a direct call or to a nop.
 */
#pragma once
#include <linux/types.h>

struct static_call_key { void *func; };
struct static_call_site { s32 addr, key; };
extern struct static_call_site __start_static_call_sites[], __stop_static_call_sites[];
int static_call_text_reserved(void *start, void *end);

#define DECLARE_STATIC_CALL(name, fn) extern struct static_call_key __SCK__##name
#define DEFINE_STATIC_CALL(name, fn) \
	struct static_call_key __SCK__##name = { fn }; \
	__asm__(".pushsection .static_call.text, \"ax\"\n.balign 8\n" \
		".globl __SCT__" #name "\n.type __SCT__" #name ", @function\n" \
		"__SCT__" #name ": .byte 0xe9\n.long " #fn " - . - 4\n" \
		".size __SCT__" #name ", . - __SCT__" #name "\n.popsection")
#define __STATIC_CALL_SITE(name) \
	"771: call __SCT__" #name "\n" \
	".pushsection .static_call_sites, \"a\"\n.balign 4\n" \
	".long 771b - .\n.long __SCK__" #name " - .\n.popsection"

/* No arguments; the registers a call may change are given to the compiler. */
static __always_inline int static_call_cond_resched(void)
{
	long ret;

	__asm__ __volatile__(__STATIC_CALL_SITE(cond_resched)
			     : "=a"(ret)
			     :
			     : "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory",
			       "cc");
	return ret;
}
