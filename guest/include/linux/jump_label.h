/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Static keys: a test is a 5-byte nop, or a jump while the key is on. The sites are in
 * __jump_table (code, target, key, each relative to its own place); Python writes them,
 * as the guest's text is read-only.
 */
#pragma once
#include <linux/atomic.h>

struct static_key { atomic_t enabled; };
struct static_key_false { struct static_key key; };
struct jump_entry {
	s32 code, target;
	long key;
};
#define JUMP_LABEL_NOP_SIZE 5
#define STATIC_KEY_INIT_FALSE { ATOMIC_INIT(0) }
#define DEFINE_STATIC_KEY_FALSE(n) struct static_key_false n = { STATIC_KEY_INIT_FALSE }
#define DECLARE_STATIC_KEY_FALSE(n) extern struct static_key_false n

static __always_inline bool arch_static_branch(struct static_key *const key)
{
	__asm__ goto("1: .byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n"
		     ".pushsection __jump_table, \"aw\"\n.balign 8\n"
		     ".long 1b - .\n.long %l[l_yes] - .\n.quad %c0 - .\n.popsection"
		     :
		     : "i"(key)
		     :
		     : l_yes);
	return false;
l_yes:
	return true;
}
#define static_branch_unlikely(x) unlikely(arch_static_branch(&(x)->key))

static inline int static_key_count(struct static_key *key) { return atomic_read(&key->enabled); }
static inline bool static_key_enabled(struct static_key *key) { return static_key_count(key) > 0; }
void static_key_enable(struct static_key *key);
void static_key_disable(struct static_key *key);
#define static_branch_enable(x) static_key_enable(&(x)->key)
#define static_branch_disable(x) static_key_disable(&(x)->key)
int jump_label_text_reserved(void *start, void *end);
