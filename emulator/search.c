// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Find the next block of code sooner than libunicorn does.
 *
 * Where a block ends with a return or the like, libunicorn looks for the next one in a table of
 * 4,096 pointers. Kernels and programs are larger than it, and each switch to another address
 * space empties it. So one search of eight goes on to a hash of all blocks, and waits for memory
 * several times: that is up to a quarter of the time of a program.
 *
 * The rows here take the place of that. Each has all that a search compares, in half a line of the
 * cache. A row outlives a switch: it has an age, and if that is not the present one, it must lie
 * where the page tables say now, as with what libunicorn finds in its hash. The functions here have
 * the names of libunicorn's, as blocks.c tells: one searches, the others hear what it forgets. A
 * block that it drops shows in a count of those, and in a flag of the block.
 *
 * A larger table has fewer misses, and is slower: it needs more of the processor's cache.
 */
#include "branches.h"
#include "originals.h"

#define ROW_BITS 14
#define PLACE_BITS 8
#define NO_PAGE (~0ull)

#define IS_DROPPED 0x40000           /* in the kind of a block */
#define KIND_OF_PROCESSOR 0xff000000 /* the rest of kind is 0 for a block that may be kept */

/* A block that was found. */
struct row {
	uint64_t pc;
	uint64_t age;
	uint32_t flags;
	int32_t block; /* behind the engine's first one */
	uint32_t code; /* behind the block */
	uint32_t page; /* of RAM, or SEVERAL */
};

#define PAGE_SHIFT 10 /* for pages of all sizes */
#define PAGES_IN_TABLE 64 /* of the smallest size, in libunicorn's */
#define SEVERAL 0xfffffffe

/* Where a page lies, for a processor with those flags. */
struct place {
	uint64_t number;
	uint64_t age;
	uint32_t flags;
	uint32_t page;
};

struct table {
	struct row rows[1 << ROW_BITS];
	struct place places[1 << PLACE_BITS];
};

typedef struct block *search(void *processor, uint64_t pc, uint64_t cs_base, uint32_t flags,
			     uint32_t kind);

struct functions {
	search *search;
	uint64_t (*page)(void *state, uint64_t addr);
	void (*drop_all)(void *processor);
	void (*flush_page)(void *processor, uint64_t addr);
	void (*flush[3])(void *processor, uint16_t modes);
	void *(*next)(void *state);
};

/* The part of eflags that a block depends on. */
#define X86_IN_FLAGS 0x73100

/* Return the age of a row that is right now. */
static inline uint64_t age(const struct engine *e)
{
	return e->age + *e->dropped;
}

static void drop_all(struct engine *e)
{
	e->age++;
	e->dropped_all = age(e);
}

API int search_size(void)
{
	return sizeof(struct table);
}

/* Have an engine's blocks be found in a table of zeroes, or as libunicorn does: NULL. */
API void search_in(void *engine, struct table *table)
{
	struct engine *e = find_engine(engine);

	if (!e)
		return;
	e->table = table;
	if (!table)
		return;
	e->dropped = &AT(uint64_t, AT(void *, engine, ENGINE_TRANSLATOR), TRANSLATOR_DROPPED);
	e->dropped_before = *e->dropped;
	e->first = 0;
	drop_all(e);
}

/* Return the table of an engine, or NULL. */
API struct table *search_table(const void *engine)
{
	const struct engine *e = find_engine(engine);

	return e ? e->table : 0;
}

/* Return a number that grows with all that libunicorn forgets. */
API uint64_t search_age(const void *engine)
{
	return age(find_engine(engine));
}

static inline uint64_t hash(uint64_t number, unsigned int bits)
{
	return number * 0x9e3779b97f4a7c15ull >> (64 - bits);
}

static inline struct block *block_of(const struct engine *e, const struct row *row)
{
	return (struct block *)(e->first + row->block);
}

/* Return the page of RAM in which an address lies. Raises the guest's exceptions. */
static uint32_t page_of(const struct functions *f, const struct engine *e, void *state,
			uint64_t addr, uint32_t flags)
{
	uint64_t number = addr >> PAGE_SHIFT;
	struct place *place = &e->table->places[hash(number, PLACE_BITS)];

	if (place->number != number || place->age != age(e) || place->flags != flags) {
		uint32_t page = f->page(state, addr) >> PAGE_SHIFT;

		*place = (struct place){ number, age(e), flags, page };
	}
	return place->page;
}

/* Return whether a row is of a block that libunicorn would find now. */
static bool is_right(const struct functions *f, const struct engine *e, const struct row *row,
		     void *state, uint64_t pc, uint32_t flags)
{
	return row->pc == pc && row->flags == flags && row->age >= e->dropped_all &&
	       (row->age >= e->dropped_one || !(block_of(e, row)->kind & IS_DROPPED)) &&
	       row->page == page_of(f, e, state, pc, flags);
}

/* Return the row of a block, or NULL. row: that of another block or age. */
static __attribute__((noinline)) const struct row *find_again(const struct functions *f,
							      struct engine *e, struct row *row,
							      void *state, uint64_t pc,
							      uint32_t flags)
{
	struct block *block;

	if (e->dropped_before != *e->dropped) {
		e->dropped_before = *e->dropped;
		e->dropped_one = age(e);
	}
	if (is_right(f, e, row, state, pc, flags)) {
		row->age = age(e);
		return row;
	}
	block = f->search(AT(void *, e->engine, ENGINE_PROCESSOR), pc, 0, flags, e->kind);
	if (!block)
		return 0;
	if (!e->first)
		e->first = (char *)block;
	row->pc = pc;
	row->age = age(e);
	row->flags = flags;
	row->block = (char *)block - e->first;
	row->code = block->code - (char *)block;
	row->page = block->pages[1] == NO_PAGE ? page_of(f, e, state, pc, flags) : SEVERAL;
	return row;
}

static inline const struct row *find(const struct functions *f, struct engine *e, void *state,
				     uint64_t pc, uint32_t flags)
{
	struct row *row = &e->table->rows[hash(pc, ROW_BITS)];

	if (row->pc == pc && row->flags == flags && row->age == age(e))
		return row;
	return find_again(f, e, row, state, pc, flags);
}

static inline struct engine *with_table(const void *state)
{
	struct engine *e = find_state(state);

	return e && e->table ? e : 0;
}

/* Libunicorn forgets what some addresses mean. */
static void grow_older(const void *processor)
{
	struct engine *e = with_table(AT(void *, processor, STATE));

	if (e)
		e->age++;
}

/*
 * Clear libunicorn's own table for the page at an address. libunicorn takes every page for one of
 * its smallest size, which is 1 KiB for arm64, and clears that and the one before. We are not told
 * the size of the page, but its address is a multiple of it.
 */
static void clear_page(const struct functions *f, void *processor, uint64_t addr, uint32_t smallest)
{
	uint64_t pages = addr ? (addr & -addr) / smallest : PAGES_IN_TABLE;

	if (pages > PAGES_IN_TABLE)
		pages = PAGES_IN_TABLE;
	f->flush_page(processor, addr);
	for (uint64_t behind = 2; behind <= pages; behind += 2)
		f->flush_page(processor, addr + behind * smallest);
}

#define FLUSH(name, number, arch)                                                                 \
	API void tlb_flush_by_mmuidx##name##_##arch(void *processor, uint16_t modes)              \
	{                                                                                         \
		grow_older(processor);                                                            \
		of_##arch.flush[number](processor, modes);                                        \
	}

#define SEARCH(arch, smallest)                                                                        \
	static struct functions of_##arch;                                                        \
	API struct block *tb_htable_lookup_##arch(void *processor, uint64_t pc, uint64_t cs_base, \
						  uint32_t flags, uint32_t kind)                  \
	{                                                                                         \
		void *state = AT(void *, processor, STATE);                                       \
		struct engine *e = with_table(state);                                             \
		const struct row *row;                                                            \
                                                                                                  \
		if (!e || cs_base || kind & ~KIND_OF_PROCESSOR)                                   \
			return of_##arch.search(processor, pc, cs_base, flags, kind);             \
		e->kind = kind;                                                                   \
		row = find(&of_##arch, e, state, pc, flags);                                      \
		return row ? block_of(e, row) : 0;                                                \
	}                                                                                         \
	API void tb_flush_jmp_cache_##arch(void *processor, uint64_t addr)                        \
	{                                                                                         \
		grow_older(processor);                                                            \
		clear_page(&of_##arch, processor, addr, smallest);                                \
	}                                                                                         \
	API void tb_flush_##arch(void *processor)                                                 \
	{                                                                                         \
		struct engine *e = with_table(AT(void *, processor, STATE));                      \
                                                                                                  \
		of_##arch.drop_all(processor);                                                    \
		if (e)                                                                            \
			drop_all(e);                                                              \
	}                                                                                         \
	FLUSH(, 0, arch)                                                                          \
	FLUSH(_all_cpus, 1, arch)                                                                 \
	FLUSH(_all_cpus_synced, 2, arch)

SEARCH(x86_64, 4096)
SEARCH(aarch64, 1024)
SEARCH(riscv64, 4096)
SEARCH(s390x, 4096)
SEARCH(ppc64, 4096)
SEARCH(mips64el, 4096)

API void *helper_lookup_tb_ptr_x86_64(void *state)
{
	struct engine *e = with_table(state);
	const struct row *row;

	if (e && e->counter->branches)
		branches_look(e, CALLER);
	if (e && !X86(state)->segs[1].base) {
		row = find(&of_x86_64, e, state, X86(state)->ip,
			   (X86(state)->flags & X86_IN_FLAGS) | X86(state)->hflags);
		if (row)
			return (char *)block_of(e, row) + row->code;
	}
	return of_x86_64.next(state);
}

#define FLUSHING(name, number, arch) \
	ORIGINAL("tlb_flush_by_mmuidx" #name "_" #arch, of_##arch.flush[number])
#define SEARCHING(arch)                                                            \
	ORIGINAL("tb_htable_lookup_" #arch, of_##arch.search),                     \
		ORIGINAL("get_page_addr_code_" #arch, of_##arch.page),             \
		ORIGINAL("tb_flush_" #arch, of_##arch.drop_all),                   \
		ORIGINAL("tb_flush_jmp_cache_" #arch, of_##arch.flush_page),       \
		FLUSHING(, 0, arch), FLUSHING(_all_cpus, 1, arch),                 \
		FLUSHING(_all_cpus_synced, 2, arch),                               \
		ORIGINAL("helper_lookup_tb_ptr_" #arch, of_##arch.next)

ORIGINALS(SEARCHING(x86_64), SEARCHING(aarch64), SEARCHING(riscv64), SEARCHING(s390x),
	  SEARCHING(ppc64), SEARCHING(mips64el));
