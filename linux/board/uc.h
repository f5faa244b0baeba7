/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
/* The used part of libunicorn's interface. */
#include "../../emulator/layout.h"
#include "board.h"

#define UC_HOOK_INTR 0x1
#define UC_HOOK_INSN 0x2
#define UC_HOOK_CODE 0x4
#define UC_HOOK_BLOCK 0x8
#define UC_HOOK_MEM_READ_UNMAPPED 0x10
#define UC_HOOK_MEM_WRITE_UNMAPPED 0x20
#define UC_HOOK_MEM_FETCH_UNMAPPED 0x40
#define UC_HOOK_MEM_FETCH_PROT 0x200
#define UC_HOOK_MEM_READ 0x400
#define UC_HOOK_MEM_WRITE 0x800
#define UC_HOOK_INSN_INVALID 0x4000
#define UC_MEM_WRITE 17
#define UC_CTL_TB_FLUSH (10 | 1 << 30)
#define UC_CTL_TLB_FLUSH (11 | 1 << 30)

typedef void *uc_engine;

/* Filled by the host: addresses of functions, in this order. */
struct uc_api {
	int (*reg_read)(uc_engine, int reg, void *value);
	int (*reg_write)(uc_engine, int reg, const void *value);
	int (*emu_start)(uc_engine, u64 begin, u64 until, u64 timeout, size_t count);
	int (*emu_stop)(uc_engine);
	int (*hook_add)(uc_engine, size_t *hook, int type, void *callback, void *data, u64 begin,
			u64 end, ...);
	int (*mmio_map)(uc_engine, u64 address, size_t size, void *read, void *read_data,
			void *write, void *write_data);
	int (*ctl)(uc_engine, int control, ...);
	int (*context_alloc)(uc_engine, void **context);
	int (*context_save)(uc_engine, void *context);
	int (*context_restore)(uc_engine, void *context);
	/* not of the interface, but exported */
	void (*invalidate)(uc_engine, u64 begin, u64 end);
	u64 (*ram_address)(uc_engine, void *host);
	void *(*translate)(void *processor, u64 pc, u64 cs_base, u32 flags, int kind);
	void (*map_page)(void *processor, u64 addr, u64 at, int access, int mode, u64 size);
	u64 (*count_blocks)(void *translator);
	void (*each_block)(void *translator, void *callback, void *data);
	void (*leave)(void *engine, uint32_t delayed);
};

extern struct uc_api uc;

static inline uc_engine engine(const struct board *b)
{
	return (uc_engine)(uintptr_t)b->uc;
}

static inline void *processor(const struct board *b)
{
	return AT(void *, engine(b), ENGINE_PROCESSOR);
}

static inline void *translator(const struct board *b)
{
	return AT(void *, engine(b), ENGINE_TRANSLATOR);
}
