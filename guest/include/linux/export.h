/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Symbols that modules may use. An entry: address of the symbol, address of its name,
 * 1 if only for modules with a GPL-compatible licence. The kernel's own are in
 * src/kernel/ksymtab.S.
 */
#pragma once

#define __EXPORT_SYMBOL(sym, gpl) \
	__asm__(".pushsection ___ksymtab+" #sym ", \"a\"\n" \
		".balign 8\n" \
		".quad " #sym ", 1f, " #gpl "\n" \
		".popsection\n" \
		".pushsection __ksymtab_strings, \"aMS\", @progbits, 1\n" \
		"1: .asciz \"" #sym "\"\n" \
		".popsection")
#define EXPORT_SYMBOL(sym) __EXPORT_SYMBOL(sym, 0)
#define EXPORT_SYMBOL_GPL(sym) __EXPORT_SYMBOL(sym, 1)
#ifdef MODULE
extern struct module __this_module;
#define THIS_MODULE (&__this_module)
#else
#define THIS_MODULE ((struct module *)0)
#endif
