// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Functions of libunicorn that boards replace by their own: on s390x, ppc64 and mips64, those that
 * are stubs there, and some others.
 *
 * libunicorn calls the function here of each name, as blocks.c tells, which jumps on to the one in
 * its place: libunicorn's own, until a board puts one there (libunicorn.py, replace()). A jump
 * keeps arguments, and the address in translated code that the function returns to.
 */
#include <elf.h>
#include <link.h>

#include "engines.h"
#include "originals.h"

#ifdef __x86_64__
#define JUMP(place) "jmp *" place "(%rip)"
#else
#define JUMP(place) \
	"adrp x16, " place "\n\tldr x16, [x16, :lo12:" place "]\n\tbr x16"
#endif

#define REPLACED(name)                                                            \
	__attribute__((used)) static void *place_of_##name;                      \
	asm(".pushsection .text\n"                                                \
	    ".globl " #name "\n"                                                  \
	    ".type " #name ", %function\n" #name ":\n\t" JUMP("place_of_" #name)  \
	    "\n.popsection");                                                     \
	static struct original row_of_##name __attribute__((used, section("originals"))) = \
		ORIGINAL(#name, place_of_##name);

/* clocks and their comparator */
REPLACED(helper_stck)
REPLACED(helper_sck)
REPLACED(helper_sckc)
REPLACED(helper_stckc)
REPLACED(helper_spt)
REPLACED(helper_stpt)
/* what the machine is */
REPLACED(helper_stfl)
REPLACED(helper_stfle)
REPLACED(helper_stsi)
REPLACED(helper_servc)
REPLACED(helper_diag)
REPLACED(helper_sigp)
/* devices, which there are none of */
REPLACED(helper_xsch)
REPLACED(helper_csch)
REPLACED(helper_hsch)
REPLACED(helper_msch)
REPLACED(helper_rchp)
REPLACED(helper_rsch)
REPLACED(helper_ssch)
REPLACED(helper_stsch)
REPLACED(helper_tsch)
REPLACED(helper_chsc)
REPLACED(helper_stcrw)
REPLACED(helper_tpi)
/* programs and their addresses */
REPLACED(helper_load_psw)
REPLACED(helper_lctlg)
REPLACED(helper_idte)
REPLACED(s390_cpu_tlb_fill)

/* ppc64: clocks */
REPLACED(helper_load_purr)
REPLACED(helper_store_purr)
REPLACED(helper_load_vtb_ppc64)
REPLACED(helper_store_vtb_ppc64)
REPLACED(helper_store_tbu40_ppc64)
REPLACED(helper_load_hdecr_ppc64)
REPLACED(helper_store_hdecr_ppc64)
/* addresses */
REPLACED(helper_store_pidr_ppc64)
REPLACED(helper_tlbie_ppc64)
REPLACED(helper_check_tlb_flush_local_ppc64)
REPLACED(helper_check_tlb_flush_global_ppc64)
REPLACED(helper_slbia)
REPLACED(ppc_cpu_tlb_fill_ppc64)
/* priorities of threads */
REPLACED(helper_raise_exception_ppc64)

/* mips64: clocks */
REPLACED(helper_mfc0_count_mips64el)
REPLACED(helper_mtc0_count_mips64el)
REPLACED(helper_mtc0_compare_mips64el)
REPLACED(helper_rdhwr_cc_mips64el)
/* exceptions and interrupts */
REPLACED(do_raise_exception_err_mips64el)
REPLACED(cpu_loop_exit_restore_mips64el)
REPLACED(cpu_mips_store_status_mips64el)
REPLACED(cpu_mips_store_cause_mips64el)
REPLACED(helper_wait_mips64el)
/* addresses and code */
REPLACED(cpu_mips_get_random_mips64el)
REPLACED(mips_cpu_tlb_fill_mips64el)
REPLACED(tlb_set_page_mips64el)
REPLACED(helper_cache_mips64el)
REPLACED(gen_intermediate_code_mips64el)

/*
 * Return whether libunicorn calls other libraries' functions where it means its own of an address:
 * each place where it looks for that address holds another one, or has none yet.
 */
API bool replaced_in(const struct link_map *map, const void *own)
{
	const ElfW(Sym) *symbols = 0;
	const ElfW(Rela) * tables[2] = { 0 };
	uint64_t sizes[2] = { 0 };
	bool found = false;

	for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++) {
		switch (d->d_tag) {
		case DT_SYMTAB:   symbols = (const void *)d->d_un.d_ptr; break;
		case DT_RELA:     tables[0] = (const void *)d->d_un.d_ptr; break;
		case DT_RELASZ:   sizes[0] = d->d_un.d_val; break;
		case DT_JMPREL:   tables[1] = (const void *)d->d_un.d_ptr; break;
		case DT_PLTRELSZ: sizes[1] = d->d_un.d_val; break;
		}
	}
	for (int i = 0; i < 2; i++) {
		for (const ElfW(Rela) *r = tables[i]; r < tables[i] + sizes[i] / sizeof(*r); r++) {
			uint64_t symbol = ELF64_R_SYM(r->r_info);

			if (!symbol || map->l_addr + symbols[symbol].st_value != (uintptr_t)own)
				continue;
			if (AT(void *, map->l_addr, r->r_offset) == own)
				return false;
			found = true;
		}
	}
	return found;
}
