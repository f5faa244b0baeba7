// SPDX-License-Identifier: GPL-2.0-or-later
/* The functions that modules have trace points call. */
#include <kpfs/control.h>
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/tracepoint.h>

extern struct tracepoint *const __start___tracepoints_ptrs[], *const __stop___tracepoints_ptrs[];
static DEFINE_MUTEX(tracepoints_mutex);

static int nr_funcs(const struct tracepoint_func *funcs)
{
	int nr = 0;

	while (funcs && funcs[nr].func)
		nr++;
	return nr;
}

static bool same_func(const struct tracepoint_func *a, const struct tracepoint_func *b)
{
	return a->func == b->func && a->data == b->data;
}

/* Return a new list: with one more before those of lower priority; -EEXIST. */
static noinline struct tracepoint_func *func_add(const struct tracepoint_func *old,
						 const struct tracepoint_func *func)
{
	int i, nr = nr_funcs(old), at = nr;
	struct tracepoint_func *new;

	if (WARN_ON(!func->func))
		return ERR_PTR(-EINVAL);
	for (i = nr - 1; i >= 0; i--) {
		if (same_func(&old[i], func))
			return ERR_PTR(-EEXIST);
		if (old[i].prio < func->prio)
			at = i;
	}
	new = kcalloc(nr + 2, sizeof(*new), GFP_KERNEL);
	if (!new)
		return ERR_PTR(-ENOMEM);
	for (i = 0; i <= nr; i++)
		new[i] = i == at ? *func : old[i - (i > at)];
	return new;
}

/* Return a new list without one, NULL if that was the last; -ENOENT. */
static noinline struct tracepoint_func *func_remove(const struct tracepoint_func *old,
						    const struct tracepoint_func *func)
{
	int i, nr = nr_funcs(old), at = 0;
	struct tracepoint_func *new;

	while (at < nr && !same_func(&old[at], func))
		at++;
	if (at == nr)
		return ERR_PTR(-ENOENT);
	if (nr == 1)
		return NULL;
	new = kcalloc(nr, sizeof(*new), GFP_KERNEL);
	if (!new)
		return ERR_PTR(-ENOMEM);
	for (i = 0; i < nr - 1; i++)
		new[i] = old[i + (i >= at)];
	return new;
}

/* Put a new list in the place of the old one, which others may still be going through. */
static void set_funcs(struct tracepoint *tp, struct tracepoint_func *new)
{
	struct tracepoint_func *old = tp->funcs;

	WRITE_ONCE(tp->funcs, new);
	kpfs_control(CTL_TRACEPOINT, (unsigned long)&tp->key, nr_funcs(new) > nr_funcs(old));
	if (old) {
		synchronize_rcu();
		kfree(old);
	}
}

int tracepoint_probe_register_prio(struct tracepoint *tp, void *probe, void *data, int prio)
{
	struct tracepoint_func func = { probe, data, prio }, *new;

	guard(mutex)(&tracepoints_mutex);
	if (tp->regfunc && !static_key_enabled(&tp->key)) {
		int ret = tp->regfunc();

		if (ret < 0)
			return ret;
	}
	new = func_add(tp->funcs, &func);
	if (IS_ERR(new)) {
		if (tp->unregfunc && !static_key_enabled(&tp->key))
			tp->unregfunc();
		WARN_ON_ONCE(PTR_ERR(new) != -ENOMEM);
		return PTR_ERR(new);
	}
	set_funcs(tp, new);
	return 0;
}

int tracepoint_probe_register(struct tracepoint *tp, void *probe, void *data)
{
	return not_tail(tracepoint_probe_register_prio(tp, probe, data, TRACEPOINT_DEFAULT_PRIO));
}

int tracepoint_probe_unregister(struct tracepoint *tp, void *probe, void *data)
{
	struct tracepoint_func func = { probe, data }, *new;

	guard(mutex)(&tracepoints_mutex);
	new = func_remove(tp->funcs, &func);
	if (WARN_ON_ONCE(IS_ERR(new)))
		return PTR_ERR(new);
	if (tp->unregfunc && static_key_count(&tp->key) == 1)
		tp->unregfunc();
	set_funcs(tp, new);
	return 0;
}

void for_each_kernel_tracepoint(void (*fct)(struct tracepoint *tp, void *priv), void *priv)
{
	for (struct tracepoint *const *tp = __start___tracepoints_ptrs;
	     tp < __stop___tracepoints_ptrs; tp++)
		fct(*tp, priv);
}
