// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Notice every store to code that is translated, by whichever mapping of its page.
 *
 * libunicorn checks a store if the entry of its page in the TLB says so, as each entry does at first.
 * The first store by a mapping without the right to execute looks for blocks that it changes, and
 * then takes the check out of the entry. QEMU puts the check back into all entries of a page when
 * the first block is translated from it. libunicorn's function for that does nothing. So what was
 * translated since from that page stays as it was, whatever is written.
 *
 * The functions here take the place of libunicorn's, as blocks.c tells:
 *
 *	tlb_protect_code              a page has its first block: all entries of it check stores
 *	tlb_unprotect_code            it has none any more
 *	tb_invalidate_phys_page_fast  a store that is checked: drop the blocks that it changes
 *	tlb_set_dirty                 behind that: take the check out, unless the page keeps blocks
 *	tlb_reset_dirty_by_vaddr      for each new block: put it into entries of its address, which is
 *	                              needed no longer
 *	tlb_set_page_with_attrs       a new entry: take the check out at once if the page has no blocks
 *	                              and may be executed, as libunicorn never does for these. On MIPS
 *	                              and where there is no such right, that is all of a kernel's memory
 *
 * Between two stores no entry of a page with blocks is without its check. That holds for pages of
 * RAM, not for mappings. Where nothing else is in a page, the first store drops all its blocks, so
 * that a compiler which fills the page is checked once. Two kinds of pages drop only the blocks that
 * a store changes, and keep the check: those that often lost all, as they have data beside code; and
 * that of the running block, whose own changes libunicorn has to find it by.
 */
#include "engines.h"
#include "originals.h"

/* The word of a page: whether it has blocks, and how often it lost all, then how many stores met. */
#define HAS_BLOCKS 0x8000
#define COUNT 0x7fff
#define OFTEN 16
#define PIECE 8 /* bytes, for which libunicorn's map of a page holds */

/* Functions that libunicorn calls. */
#define FIRST_BLOCK 1
#define LAST_BLOCK 2
#define CHECKED_STORE 4
#define TAKE_CHECK 8
#define NEW_ENTRY 16
#define ALL 31

#define STORE 1 /* the kind of an access, and rights of a page */
#define READ_AND_WRITE 3
#define ALL_RIGHTS 7 /* and no bit that has stores come to the TLB again, as s390x has one */

struct functions {
	void (*set_dirty)(void *processor, uint64_t addr);
	void (*check)(void *processor, uintptr_t host, uint64_t size);
	void (*check_address)(void *processor, uint64_t addr, uint64_t size);
	void (*drop)(void *engine, void *locks, uint64_t at, int size, uintptr_t from);
	void (*drop_range)(void *engine, uint64_t begin, uint64_t end);
	const struct block *(*block_of)(void *translator, uintptr_t from);
	char *(*host)(void *engine, void *memory, uint64_t at);
	uint64_t (*at)(void *engine, const void *host);
	void (*map)(void *processor, uint64_t addr, uint64_t place, int rights, int mode,
		    uint64_t size);
	void *(*probe)(void *state, uint64_t addr, int size, int kind, int mode, uintptr_t from);
	void (*fill)(void *processor, uint64_t addr, uint64_t place, uint32_t attributes,
		     int rights, int mode, uint64_t size);
	uint64_t before; /* bytes before a store that it changes, too */
};

/* x86_64, aarch64, riscv64, s390x, ppc64, mips64el; on s390x no block contains an illegal instruction at its end */
static struct functions of[6] = { [3] = { .before = 1 } };

static inline uint16_t *page_at(const struct engine *e, uint64_t at)
{
	uint64_t number = at >> e->page_shift;

	return e->pages && number < e->nr_pages ? &e->pages[number] : 0;
}

static inline uint64_t page_size(const struct engine *e)
{
	return 1ull << e->page_shift;
}

static void first_block(const struct functions *f, void *engine, uint64_t at)
{
	struct engine *e = find_engine(engine);
	uint16_t *page = e ? page_at(e, at) : 0;

	if (!page)
		return;
	e->called |= FIRST_BLOCK;
	*page |= HAS_BLOCKS;
	f->check(AT(void *, engine, ENGINE_PROCESSOR), (uintptr_t)f->host(engine, 0, at),
		 page_size(e));
}

static void last_block(void *engine, uint64_t at)
{
	struct engine *e = find_engine(engine);
	uint16_t *page = e ? page_at(e, at) : 0;

	if (!page)
		return;
	e->called |= LAST_BLOCK;
	*page &= ~HAS_BLOCKS;
}

/* Return whether the block that stores lies in a page. from: an address in its code, or 0. */
static bool runs_in(const struct functions *f, const struct engine *e, uint64_t begin,
		    uintptr_t from)
{
	const struct block *b = f->block_of(AT(void *, e->engine, ENGINE_TRANSLATOR), from);

	return b && (b->pages[0] == begin || b->pages[1] == begin);
}

/*
 * Drop the blocks that a store changes. Does not return if the running block is among them.
 * libunicorn stores byte by byte at odd addresses, and must not leave the block between two of them.
 */
static void drop_changed(const struct functions *f, const struct engine *e, void *locks,
			 uint64_t at, int size, uintptr_t from)
{
	uint64_t end = at + (size == 1 ? PIECE : size), last = (at | (page_size(e) - 1)) + 1;

	if (end > last)
		end = last;
	if (at & (page_size(e) - 1))
		at -= f->before;
	while (at < end) {
		uint64_t next = (at | (PIECE - 1)) + 1;

		if (next > end)
			next = end;
		f->drop(e->engine, locks, at, next - at, from);
		at = next;
	}
}

static void checked_store(const struct functions *f, void *engine, void *locks, uint64_t at,
			  int size, uintptr_t from)
{
	struct engine *e = find_engine(engine);
	uint16_t *page = e ? page_at(e, at) : 0;
	uint64_t begin;

	if (!page) {
		f->drop(engine, locks, at, size, from);
		return;
	}
	if (e->fills) {
		e->is_free = !(*page & HAS_BLOCKS);
		return;
	}
	e->called |= CHECKED_STORE;
	e->keeps_check = false;
	if (!(*page & HAS_BLOCKS))
		return;
	drop_changed(f, e, locks, at, size, from);
	if (!(*page & HAS_BLOCKS))
		return;
	begin = at & -page_size(e);
	e->keeps_check = true;
	if ((*page & COUNT) == COUNT)
		*page &= ~COUNT;
	else if ((*page & COUNT) >= OFTEN)
		++*page;
	if ((*page & COUNT) >= OFTEN || runs_in(f, e, begin, from))
		return;
	++*page;
	f->drop_range(engine, begin, begin + page_size(e));
	e->keeps_check = false;
}

static void take_check(const struct functions *f, void *processor, uint64_t addr)
{
	struct engine *e = find_state(AT(void *, processor, STATE));

	if (!e || !e->pages || !e->keeps_check)
		f->set_dirty(processor, addr);
	if (e)
		e->called |= TAKE_CHECK;
}

static void new_block(const struct functions *f, void *processor, uint64_t addr, uint64_t size)
{
	const struct engine *e = find_state(AT(void *, processor, STATE));

	if (!e || !e->pages)
		f->check_address(processor, addr, size);
}

/* An entry is new: libunicorn says which page it leads to where it checks a store. */
static void new_entry(const struct functions *f, void *processor, uint64_t addr, int rights,
		      int mode, uint64_t size)
{
	void *state = AT(void *, processor, STATE);
	struct engine *e = find_state(state);

	if (rights != ALL_RIGHTS || !e || !e->pages || e->fills || size < page_size(e))
		return;
	e->fills = true;
	e->is_free = false;
	f->probe(state, addr, 1, STORE, mode, 0);
	e->fills = false;
	if (!e->is_free)
		return;
	f->set_dirty(processor, addr);
	e->called |= NEW_ENTRY;
}

#define TRACK(arch, number)                                                                      \
	API void tlb_protect_code_##arch(void *engine, uint64_t at)                              \
	{                                                                                        \
		first_block(&of[number], engine, at);                                            \
	}                                                                                        \
	API void tlb_unprotect_code_##arch(void *engine, uint64_t at)                            \
	{                                                                                        \
		last_block(engine, at);                                                          \
	}                                                                                        \
	API void tb_invalidate_phys_page_fast_##arch(void *engine, void *locks, uint64_t at,     \
						     int size, uintptr_t from)                   \
	{                                                                                        \
		checked_store(&of[number], engine, locks, at, size, from);                       \
	}                                                                                        \
	API void tlb_set_dirty_##arch(void *processor, uint64_t addr)                            \
	{                                                                                        \
		take_check(&of[number], processor, addr);                                        \
	}                                                                                        \
	API void tlb_reset_dirty_by_vaddr_##arch(void *processor, uint64_t addr, uint64_t size)  \
	{                                                                                        \
		new_block(&of[number], processor, addr, size);                                   \
	}                                                                                        \
	API void tlb_set_page_with_attrs_##arch(void *processor, uint64_t addr, uint64_t place,  \
						uint32_t attributes, int rights, int mode,       \
						uint64_t size)                                   \
	{                                                                                        \
		of[number].fill(processor, addr, place, attributes, rights, mode, size);         \
		new_entry(&of[number], processor, addr, rights, mode, size);                     \
	}

TRACK(x86_64, 0)
TRACK(aarch64, 1)
TRACK(riscv64, 2)
TRACK(s390x, 3)
TRACK(ppc64, 4)
TRACK(mips64el, 5)

/*
 * Have an engine notice all stores to what lies below a place in RAM. pages: a zero for each page;
 * NULL: as libunicorn does.
 */
API void track_in(void *engine, uint16_t *pages, uint64_t nr_pages, uint32_t page_shift)
{
	struct engine *e = find_engine(engine);

	if (!e)
		return;
	e->nr_pages = nr_pages;
	e->page_shift = page_shift;
	e->pages = pages;
}

/* Return the pages of an engine, or NULL. */
API uint16_t *track_pages(const void *engine)
{
	const struct engine *e = find_engine(engine);

	return e ? e->pages : 0;
}

/*
 * Try whether libunicorn calls the functions here. It has just run code of the page that lies at a
 * physical address, and in this process. The caller drops what is translated, and the TLB.
 */
API bool track_works(const void *engine, int number, uint64_t addr, const void *host)
{
	const struct functions *f = &of[number];
	const struct engine *e = find_engine(engine);
	void *processor = AT(void *, engine, ENGINE_PROCESSOR);
	uint64_t at = f->at(e->engine, host);

	*page_at(e, at) = 0;
	f->map(processor, addr, addr, ALL_RIGHTS, 0, page_size(e));
	f->map(processor, addr, addr, READ_AND_WRITE, 0, page_size(e));
	*page_at(e, at) = HAS_BLOCKS;
	f->probe(AT(void *, processor, STATE), addr, 1, STORE, 0, 0);
	*page_at(e, at) = 0;
	return e->called == ALL;
}

#define TRACKING(arch, number)                                                           \
	ORIGINAL("tlb_set_dirty_" #arch, of[number].set_dirty),                          \
		ORIGINAL("tlb_reset_dirty_" #arch, of[number].check),                    \
		ORIGINAL("tlb_reset_dirty_by_vaddr_" #arch, of[number].check_address),   \
		ORIGINAL("tb_invalidate_phys_page_fast_" #arch, of[number].drop),        \
		ORIGINAL("tb_invalidate_phys_range_" #arch, of[number].drop_range),      \
		ORIGINAL("tcg_tb_lookup_" #arch, of[number].block_of),                   \
		ORIGINAL("qemu_map_ram_ptr_" #arch, of[number].host),                    \
		ORIGINAL("qemu_ram_addr_from_host_" #arch, of[number].at),               \
		ORIGINAL("tlb_set_page_" #arch, of[number].map),                         \
		ORIGINAL("tlb_set_page_with_attrs_" #arch, of[number].fill),             \
		ORIGINAL("probe_access_" #arch, of[number].probe)

ORIGINALS(TRACKING(x86_64, 0), TRACKING(aarch64, 1), TRACKING(riscv64, 2), TRACKING(s390x, 3),
	  TRACKING(ppc64, 4), TRACKING(mips64el, 5));
