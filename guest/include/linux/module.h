/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once
#include <linux/atomic.h>
#include <linux/errno.h>
#include <linux/export.h>
#include <linux/init.h>
#include <linux/kallsyms.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/moduleparam.h>
#include <linux/notifier.h>
#include <linux/sched.h>
#include <linux/stat.h>
#include <linux/string.h>
#include <linux/utsname.h>

#define MODULE_NAME_LEN 56
#define VERMAGIC_STRING UTS_RELEASE " SMP preempt mod_unload "

enum module_state {
	MODULE_STATE_LIVE,
	MODULE_STATE_COMING,
	MODULE_STATE_GOING,
	MODULE_STATE_UNFORMED
};

struct exception_table_entry;
struct bug_entry;
struct trace_event_call;
struct module_symbol {
	unsigned long addr, size;
	const char *name;
};
struct module_layout { unsigned long base, size, text_size; };

/* guest/loader/modules.py fills it in. */
struct module {
	enum module_state state;
	struct list_head list;
	char name[MODULE_NAME_LEN];
	int (*init)(void);
	void (*exit)(void);
	struct kernel_param *kp;
	unsigned long num_kp;
	struct module_layout core_layout, init_layout;
	const struct exception_table_entry *extable;
	unsigned long num_exentries;
	struct bug_entry *bug_table;
	unsigned long num_bugs;
	const struct trace_event_call *trace_events;
	unsigned long num_trace_events;
	const struct module_symbol *symtab; /* by address */
	unsigned long num_symtab;
	long refcnt;   /* uses, and 1 while it is not going */
	long nr_users; /* modules that use symbols of this one */
	char *args;
	unsigned long taints;
};

#define MODULE_INFO(tag, info) __MODULE_INFO(tag, tag, info)
#define MODULE_LICENSE(s) MODULE_INFO(license, s)
#define MODULE_AUTHOR(s) MODULE_INFO(author, s)
#define MODULE_DESCRIPTION(s) MODULE_INFO(description, s)
#define MODULE_VERSION(s) MODULE_INFO(version, s)
#define MODULE_ALIAS(s) MODULE_INFO(alias, s)
#define MODULE_SOFTDEP(s) MODULE_INFO(softdep, s)
#define MODULE_FIRMWARE(s) MODULE_INFO(firmware, s)
#define MODULE_IMPORT_NS(s) MODULE_INFO(import_ns, #s)
#define MODULE_DEVICE_TABLE(type, name)

struct module *find_module(const char *name);
bool try_module_get(struct module *mod);
void __module_get(struct module *mod);
void module_put(struct module *mod);
int module_refcount(struct module *mod);
void *__symbol_get(const char *symbol); /* of EXPORT_SYMBOL_GPL alone; NULL */
void __symbol_put(const char *symbol);
#define symbol_get(x) ((__typeof__(&x))__symbol_get(#x))
#define symbol_put(x) __symbol_put(#x)
struct module *__module_address(unsigned long addr);
struct module *__module_text_address(unsigned long addr);
bool is_module_address(unsigned long addr);
bool is_module_text_address(unsigned long addr);
static inline bool within_module(unsigned long addr, const struct module *mod)
{
	return addr - mod->core_layout.base < mod->core_layout.size ||
	       addr - mod->init_layout.base < mod->init_layout.size;
}
const struct exception_table_entry *search_module_extables(unsigned long addr);
struct bug_entry *module_find_bug(unsigned long bugaddr);
const char *module_address_lookup(unsigned long addr, unsigned long *size, unsigned long *offset,
				  char **modname, char *namebuf);
int register_module_notifier(struct notifier_block *nb);
int unregister_module_notifier(struct notifier_block *nb);
static inline const char *module_name(struct module *mod) { return mod ? mod->name : "kernel"; }
void print_modules(void);
static inline bool module_is_live(struct module *mod) { return mod->state != MODULE_STATE_GOING; }
