// SPDX-License-Identifier: GPL-2.0-or-later
/* Process identifiers: a hash of struct pid. */
#include <linux/mm.h>
#include <linux/pid.h>

#define PIDHASH_SIZE 256
static struct hlist_head pid_hash[PIDHASH_SIZE];
static DEFINE_SPINLOCK(pidmap_lock);
static struct kmem_cache *pid_cachep;
static pid_t last_pid = RESERVED_PIDS - 1;

static inline unsigned int pid_hashfn(pid_t nr)
{
	return ((u32)nr * 0x61c88647u) >> 24;
}

noinline struct pid *find_pid_ns(pid_t nr)
{
	struct pid *pid;

	hlist_for_each_entry(pid, &pid_hash[pid_hashfn(nr)], pid_chain)
		if (pid->nr == nr)
			return pid;
	return NULL;
}

noinline struct pid *find_vpid(pid_t nr)
{
	return find_pid_ns(nr);
}

noinline void put_pid(struct pid *pid)
{
	if (pid && refcount_dec_and_test(&pid->count))
		kmem_cache_free(pid_cachep, pid);
}

/* Allocate a pid. set_tid: the number wanted, 0 for the next free one. */
struct pid *alloc_pid(pid_t set_tid)
{
	struct pid *pid = kmem_cache_alloc(pid_cachep, GFP_KERNEL);
	long err = -EEXIST;

	if (!pid)
		return ERR_PTR(-ENOMEM);
	spin_lock_irq(&pidmap_lock);
	if (set_tid && find_pid_ns(set_tid))
		goto out_free;
	if (!set_tid) {
		do {
			set_tid = ++last_pid;
		} while (find_pid_ns(set_tid));
	}
	refcount_set(&pid->count, 1);
	pid->nr = set_tid;
	INIT_HLIST_HEAD(&pid->tasks);
	hlist_add_head(&pid->pid_chain, &pid_hash[pid_hashfn(pid->nr)]);
	spin_unlock_irq(&pidmap_lock);
	return pid;
out_free:
	spin_unlock_irq(&pidmap_lock);
	kmem_cache_free(pid_cachep, pid);
	return ERR_PTR(err);
}

void free_pid(struct pid *pid)
{
	unsigned long flags;

	spin_lock_irqsave(&pidmap_lock, flags);
	hlist_del_init(&pid->pid_chain);
	spin_unlock_irqrestore(&pidmap_lock, flags);
	put_pid(pid);
}

void attach_pid(struct task_struct *task)
{
	hlist_add_head(&task->pid_links, &task->thread_pid->tasks);
}

void detach_pid(struct task_struct *task)
{
	struct pid *pid = task->thread_pid;

	hlist_del_init(&task->pid_links);
	task->thread_pid = NULL;
	free_pid(pid);
}

noinline struct task_struct *pid_task(struct pid *pid)
{
	if (!pid || hlist_empty(&pid->tasks))
		return NULL;
	return container_of(pid->tasks.first, struct task_struct, pid_links);
}

noinline struct task_struct *find_task_by_vpid(pid_t nr)
{
	return pid_task(find_vpid(nr));
}

struct task_struct *find_get_task_by_vpid(pid_t nr)
{
	struct task_struct *task = find_task_by_vpid(nr);

	if (task)
		get_task_struct(task);
	return task;
}

void __init pid_idr_init(void)
{
	pid_cachep = KMEM_CACHE(pid, SLAB_HWCACHE_ALIGN | SLAB_PANIC);
}
