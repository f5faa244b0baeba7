// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Loadable modules. Python does what concerns the file (checks, places, relocations) and pages
 * (guest/loader/modules.py); the rest of a module's life is here.
 */
#include <asm/extable.h>
#include <kpfs/control.h>
#include <linux/host.h>
#include <linux/hostfs.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>

const char vermagic[] = VERMAGIC_STRING;
static LIST_HEAD(modules); /* newest first */
static DEFINE_MUTEX(module_mutex);
static BLOCKING_NOTIFIER_HEAD(module_notify_list);

int register_module_notifier(struct notifier_block *nb)
{
	return blocking_notifier_chain_register(&module_notify_list, nb);
}

int unregister_module_notifier(struct notifier_block *nb)
{
	return blocking_notifier_chain_unregister(&module_notify_list, nb);
}

noinline struct module *find_module(const char *name)
{
	struct module *mod;

	list_for_each_entry(mod, &modules, list)
		if (!strcmp(mod->name, name))
			return mod;
	return NULL;
}

/* ---- what oopses say */
static struct { char name[MODULE_NAME_LEN], taints[8]; } last_unloaded_module;

/* Write "(PO+)": what the module taints the kernel with, and that it is coming or going. */
static noinline char *module_flags(struct module *mod, char *buf, bool show_state)
{
	bool going = show_state && mod->state == MODULE_STATE_GOING;
	bool coming = show_state && mod->state == MODULE_STATE_COMING;
	char *p = buf;

	if (mod->taints || going || coming) {
		*p++ = '(';
		if (mod->taints & 1UL << TAINT_PROPRIETARY_MODULE)
			*p++ = 'P';
		if (mod->taints & 1UL << TAINT_OOT_MODULE)
			*p++ = 'O';
		if (going)
			*p++ = '-';
		if (coming)
			*p++ = '+';
		*p++ = ')';
	}
	*p = 0;
	return buf;
}

void print_modules(void)
{
	struct module *mod;
	char buf[8];

	printk(KERN_DEFAULT "Modules linked in:");
	preempt_disable();
	list_for_each_entry(mod, &modules, list)
		pr_cont(" %s%s", mod->name, module_flags(mod, buf, true));
	preempt_enable();
	if (last_unloaded_module.name[0])
		pr_cont(" [last unloaded: %s%s]", last_unloaded_module.name,
			last_unloaded_module.taints);
	pr_cont("\n");
}

static void taint_by(struct module *mod)
{
	for (unsigned int flag = 0; mod->taints >> flag; flag++)
		if (mod->taints >> flag & 1)
			add_taint(flag, LOCKDEP_NOW_UNRELIABLE);
}

/* ---- use counts */
noinline int module_refcount(struct module *mod)
{
	return READ_ONCE(mod->refcnt) - 1;
}

noinline void __module_get(struct module *mod)
{
	if (mod)
		__sync_fetch_and_add(&mod->refcnt, 1);
}

noinline bool try_module_get(struct module *mod)
{
	if (mod && (!module_is_live(mod) || READ_ONCE(mod->refcnt) == 0))
		return false;
	__module_get(mod);
	return true;
}

noinline void module_put(struct module *mod)
{
	if (mod)
		WARN_ON(__sync_sub_and_fetch(&mod->refcnt, 1) < 0);
}

/* ---- symbols that are asked for by name */
static noinline bool find_symbol(struct kpfs_symbol *s)
{
	return !kpfs_control(CTL_SYMBOL_FIND, (unsigned long)s, 0);
}

void *__symbol_get(const char *symbol)
{
	struct kpfs_symbol s = { .name = symbol };

	guard(preempt)();
	if (!find_symbol(&s))
		return NULL;
	if (!s.gpl) {
		pr_warn("failing symbol_get of non-GPLONLY symbol %s.\n", symbol);
		return NULL;
	}
	return !s.owner || try_module_get(s.owner) ? (void *)s.addr : NULL;
}

void __symbol_put(const char *symbol)
{
	struct kpfs_symbol s = { .name = symbol };

	guard(preempt)();
	BUG_ON(!find_symbol(&s));
	module_put(s.owner);
}

/* ---- per-CPU variables that are made at run time */
void __percpu *__alloc_percpu(size_t size, size_t align)
{
	long at = kpfs_control(CTL_PERCPU_ALLOC, size, align);

	return IS_ERR_VALUE(at) ? NULL : (void __percpu *)at;
}

void free_percpu(void __percpu *p)
{
	if (p)
		kpfs_control(CTL_PERCPU_FREE, (unsigned long)p, 0);
}

/* ---- whose address is it */
noinline struct module *__module_address(unsigned long addr)
{
	struct module *mod;

	list_for_each_entry(mod, &modules, list)
		if (within_module(addr, mod))
			return mod;
	return NULL;
}

noinline struct module *__module_text_address(unsigned long addr)
{
	struct module *mod = __module_address(addr);

	if (!mod || addr - mod->core_layout.base < mod->core_layout.text_size ||
	    addr - mod->init_layout.base < mod->init_layout.text_size)
		return mod;
	return NULL;
}

bool is_module_address(unsigned long addr)
{
	return __module_address(addr) != NULL;
}

bool is_module_text_address(unsigned long addr)
{
	return __module_text_address(addr) != NULL;
}

const struct exception_table_entry *search_module_extables(unsigned long addr)
{
	struct module *mod = __module_address(addr);

	return mod ? search_extable(mod->extable, mod->num_exentries, addr) : NULL;
}

struct bug_entry *module_find_bug(unsigned long bugaddr)
{
	struct module *mod = __module_address(bugaddr);

	for (unsigned long i = 0; mod && i < mod->num_bugs; i++) {
		struct bug_entry *bug = &mod->bug_table[i];

		if ((unsigned long)&bug->bug_addr_disp + bug->bug_addr_disp == bugaddr)
			return bug;
	}
	return NULL;
}

/* Find the last symbol at or before addr; the first of several at one address. */
const char *module_address_lookup(unsigned long addr, unsigned long *size, unsigned long *offset,
				  char **modname, char *namebuf)
{
	struct module *mod = __module_address(addr);
	const struct module_symbol *sym, *best = NULL;

	for (unsigned long i = 0; mod && i < mod->num_symtab; i++) {
		sym = &mod->symtab[i];
		if (addr - sym->addr < sym->size && (!best || sym->addr > best->addr))
			best = sym;
	}
	if (!best)
		return NULL;
	*size = best->size;
	*offset = addr - best->addr;
	if (modname)
		*modname = mod->name;
	strscpy(namebuf, best->name, KSYM_NAME_LEN);
	return namebuf;
}

/* ---- loading */
static noinline void free_module(struct module *mod)
{
	destroy_params(mod->kp, mod->num_kp);
	mutex_lock(&module_mutex);
	list_del(&mod->list);
	mutex_unlock(&module_mutex);
	kfree(mod->args);
	kpfs_control(CTL_MODULE_FREE, (unsigned long)mod, 0);
}

static noinline void module_notify(struct module *mod, enum module_state state)
{
	kpfs_control(CTL_MODULE_STATE, (unsigned long)mod, state);
	if (mod->num_trace_events && state != MODULE_STATE_LIVE)
		update_event_dirs();
	blocking_notifier_call_chain(&module_notify_list, state, mod);
}

static noinline int do_init_module(struct module *mod)
{
	int ret = 0;

	if (mod->init)
		ret = do_one_initcall(mod->init);
	if (ret < 0) {
		mod->state = MODULE_STATE_GOING;
		module_put(mod);
		module_notify(mod, MODULE_STATE_GOING);
		free_module(mod);
		return ret;
	}
	if (ret > 0) {
		pr_warn("%s: '%s'->init suspiciously returned %d, it should follow 0/-E convention\n"
			"%s: loading module anyway...\n",
			"do_init_module", mod->name, ret, "do_init_module");
		dump_stack();
	}
	mod->state = MODULE_STATE_LIVE;
	module_notify(mod, MODULE_STATE_LIVE);
	kpfs_control(CTL_MODULE_FREE_INIT, (unsigned long)mod, 0);
	module_put(mod);
	return 0;
}

static int unknown_module_param_cb(char *param, char *val, const char *modname, void *arg)
{
	pr_warn("%s: unknown parameter '%s' ignored\n", modname, param);
	return 0;
}

static noinline int prepare_coming_module(struct module *mod)
{
	mod->state = MODULE_STATE_COMING;
	module_notify(mod, MODULE_STATE_COMING);
	return 0;
}

static noinline int load_module(void __user *umod, unsigned long len, const char __user *uargs)
{
	struct module *mod;
	char *after;
	long err;

	mod = (struct module *)kpfs_control(CTL_MODULE_LOAD, (unsigned long)umod, len);
	if (IS_ERR(mod))
		return PTR_ERR(mod);
	mutex_lock(&module_mutex);
	list_add(&mod->list, &modules);
	mutex_unlock(&module_mutex);
	taint_by(mod);
	mod->refcnt = 2;
	mod->args = strndup_user(uargs, PAGE_SIZE);
	if (IS_ERR(mod->args)) {
		err = PTR_ERR(mod->args);
		mod->args = NULL;
		free_module(mod);
		return err;
	}
	prepare_coming_module(mod);
	after = parse_args(mod->name, mod->args, mod->kp, mod->num_kp, unknown_module_param_cb,
			   mod);
	if (IS_ERR(after)) {
		mod->state = MODULE_STATE_GOING;
		module_notify(mod, MODULE_STATE_GOING);
		free_module(mod);
		return PTR_ERR(after);
	}
	if (after)
		pr_warn("%s: parameters '%s' after `--' ignored\n", mod->name, after);
	return do_init_module(mod);
}

static int may_init_module(void)
{
	return current->cred->euid.val ? -EPERM : 0;
}

/* Load a module; not from user memory if Python has the file already: see Modules.pending. */
SYSCALL_DEFINE3(init_module, void __user *, umod, unsigned long, len, const char __user *, uargs)
{
	int err = may_init_module();

	if (!kpfs_configured(KPFS_CONFIG_MODULES))
		return -ENOSYS;
	return err ?: load_module(umod, len, uargs);
}

/* ---- unloading */
static noinline int try_stop_module(struct module *mod)
{
	if (module_refcount(mod) != 0)
		return -EWOULDBLOCK;
	mod->refcnt = 0;
	mod->state = MODULE_STATE_GOING;
	return 0;
}

SYSCALL_DEFINE2(delete_module, const char __user *, name_user, unsigned int, flags)
{
	char name[MODULE_NAME_LEN];
	struct module *mod;
	int ret = may_init_module();

	if (!kpfs_configured(KPFS_CONFIG_MODULE_UNLOAD))
		return -ENOSYS;
	if (ret)
		return ret;
	if (strncpy_from_user(name, name_user, MODULE_NAME_LEN - 1) < 0)
		return -EFAULT;
	name[MODULE_NAME_LEN - 1] = 0;
	mod = find_module(name);
	if (!mod)
		return -ENOENT;
	if (mod->nr_users)
		return -EWOULDBLOCK;
	if (mod->state != MODULE_STATE_LIVE || (mod->init && !mod->exit))
		return -EBUSY;
	ret = try_stop_module(mod);
	if (ret)
		return ret;
	if (mod->exit)
		mod->exit();
	module_notify(mod, MODULE_STATE_GOING);
	strscpy(last_unloaded_module.name, mod->name, sizeof(last_unloaded_module.name));
	module_flags(mod, last_unloaded_module.taints, false);
	free_module(mod);
	return 0;
}
