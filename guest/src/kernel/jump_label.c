// SPDX-License-Identifier: GPL-2.0-or-later
/* Static keys and static calls: switching them, and which text they may change. */
#include <kpfs/control.h>
#include <linux/jump_label.h>
#include <linux/kernel.h>
#include <linux/mutex.h>
#include <linux/static_call.h>

extern struct jump_entry __start___jump_table[], __stop___jump_table[];
static DEFINE_MUTEX(jump_label_mutex);

static inline unsigned long jump_entry_code(const struct jump_entry *entry)
{
	return (unsigned long)&entry->code + entry->code;
}

static inline struct static_key *jump_entry_key(const struct jump_entry *entry)
{
	return (struct static_key *)((unsigned long)&entry->key + entry->key);
}

static noinline int __jump_label_text_reserved(struct jump_entry *iter, struct jump_entry *stop,
					       void *start, void *end)
{
	for (; iter < stop; iter++) {
		unsigned long code = jump_entry_code(iter);

		if (code <= (unsigned long)end && code + JUMP_LABEL_NOP_SIZE > (unsigned long)start)
			return 1;
	}
	return 0;
}

int jump_label_text_reserved(void *start, void *end)
{
	return __jump_label_text_reserved(__start___jump_table, __stop___jump_table, start, end);
}

/* Have Python make each site of a key a jump or a nop. */
static noinline void __jump_label_update(struct static_key *key, bool on)
{
	struct jump_entry *entry;

	for (entry = __start___jump_table; entry < __stop___jump_table; entry++)
		if (jump_entry_key(entry) == key)
			kpfs_control(CTL_JUMP_LABEL, (unsigned long)entry, on);
}

static void jump_label_update(struct static_key *key)
{
	__jump_label_update(key, static_key_enabled(key));
}

noinline void static_key_slow_inc(struct static_key *key)
{
	guard(mutex)(&jump_label_mutex);
	if (atomic_inc_return(&key->enabled) == 1)
		jump_label_update(key);
}

void static_key_slow_dec(struct static_key *key)
{
	guard(mutex)(&jump_label_mutex);
	WARN_ON(!static_key_enabled(key));
	if (atomic_dec_and_test(&key->enabled))
		jump_label_update(key);
}

void static_key_enable(struct static_key *key)
{
	if (!static_key_enabled(key))
		static_key_slow_inc(key);
}

void static_key_disable(struct static_key *key)
{
	if (static_key_enabled(key))
		static_key_slow_dec(key);
}

static inline unsigned long static_call_addr(const struct static_call_site *site)
{
	return (unsigned long)&site->addr + site->addr;
}

int static_call_text_reserved(void *start, void *end)
{
	struct static_call_site *site;

	for (site = __start_static_call_sites; site < __stop_static_call_sites; site++) {
		unsigned long addr = static_call_addr(site);

		if (addr <= (unsigned long)end && addr + 5 > (unsigned long)start)
			return 1;
	}
	return 0;
}
