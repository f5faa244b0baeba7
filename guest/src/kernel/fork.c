// SPDX-License-Identifier: GPL-2.0-or-later
/* New tasks. */
#include <linux/completion.h>
#include <linux/fdtable.h>
#include <linux/fs.h>
#include <linux/host.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/pid.h>
#include <linux/string.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>
#include <trace/events/sched.h>

static struct kmem_cache *task_struct_cachep;
static unsigned long user_slots[KPFS_USER_SLOTS / 64];
static unsigned long thread_stacks[KPFS_STACKS / 64] = { (1UL << KPFS_STACKS_TASKS) - 1 };
static atomic_t nr_threads = ATOMIC_INIT(1);
unsigned long total_forks;
rwlock_t tasklist_lock;

static struct task_struct *alloc_task_struct_node(void)
{
	return kmem_cache_alloc(task_struct_cachep, GFP_KERNEL);
}

static void free_task_struct(struct task_struct *tsk)
{
	kmem_cache_free(task_struct_cachep, tsk);
}

/* Take a stack slot. As with CONFIG_VMAP_STACK no page lies below it, which ends a recursion. */
static int alloc_thread_stack_node(struct task_struct *tsk)
{
	unsigned int word, slot;

	for (word = 0; word < ARRAY_SIZE(thread_stacks); word++)
		while (~thread_stacks[word]) {
			slot = word * 64 + __builtin_ctzl(~thread_stacks[word]);
			if (test_and_set_bit(slot, thread_stacks))
				continue;
			tsk->stack = STACK_SLOT(slot);
			return 0;
		}
	tsk->stack = NULL;
	return -ENOMEM;
}

static void free_thread_stack(struct task_struct *tsk)
{
	clear_bit(((unsigned long)tsk->stack - KPFS_STACK_BASE) / KPFS_STACK_STRIDE, thread_stacks);
}

/* Take one of the slots at KPFS_USER_BASE for the task's user memory. */
static int mm_init(struct task_struct *p)
{
	for (int slot = 0; slot < KPFS_USER_SLOTS; slot++) {
		if (test_and_set_bit(slot, user_slots))
			continue;
		p->user_base = KPFS_USER_BASE + slot * KPFS_USER_SIZE;
		p->user_brk = p->user_base + KPFS_USER_BUFFER;
		return 0;
	}
	return -EAGAIN;
}

noinline void exit_mm(struct task_struct *p)
{
	if (p->user_base)
		clear_bit((p->user_base - KPFS_USER_BASE) / KPFS_USER_SIZE, user_slots);
	p->user_base = 0;
	p->mm = NULL;
}

/* All tasks share one page table. */
struct mm_struct init_mm;

static int copy_mm(unsigned long clone_flags, struct task_struct *tsk, int kthread)
{
	tsk->user_base = 0;
	tsk->mm = kthread ? NULL : &init_mm;
	return kthread ? 0 : mm_init(tsk);
}

noinline void free_task(struct task_struct *tsk)
{
	free_thread_stack(tsk);
	free_task_struct(tsk);
}

noinline void __put_task_struct(struct task_struct *tsk)
{
	WARN_ON(tsk == current);
	free_task(tsk);
}

noinline void put_task_struct(struct task_struct *tsk)
{
	if (refcount_dec_and_test(&tsk->usage))
		__put_task_struct(tsk);
}

static struct task_struct *dup_task_struct(struct task_struct *orig)
{
	struct task_struct *tsk = alloc_task_struct_node();

	if (!tsk)
		return NULL;
	*tsk = *orig;
	if (alloc_thread_stack_node(tsk)) {
		free_task_struct(tsk);
		return NULL;
	}
	refcount_set(&tsk->usage, 2);
	return tsk;
}

noinline int copy_creds(struct task_struct *p, struct kernel_clone_args *args)
{
	if (!args->set_cred)
		return 0;
	if (args->uid != ~0u)
		p->cred->uid.val = p->cred->euid.val = p->cred->suid.val = p->cred->fsuid.val =
			args->uid;
	if (args->gid != ~0u)
		p->cred->gid.val = p->cred->egid.val = p->cred->sgid.val = p->cred->fsgid.val =
			args->gid;
	return 0;
}

static int copy_files(unsigned long clone_flags, struct task_struct *tsk, int kthread)
{
	struct files_struct *files = current->files;

	if (!files || kthread) {
		tsk->files = NULL;
		return 0;
	}
	if (clone_flags & CLONE_FILES) {
		atomic_inc(&files->count);
		return 0;
	}
	tsk->files = dup_fd(files);
	return IS_ERR(tsk->files) ? PTR_ERR(tsk->files) : 0;
}

/* Give the caller a table of descriptors of its own. */
noinline int unshare_files(void)
{
	struct files_struct *old = current->files, *copy;

	if (atomic_read(&old->count) <= 1)
		return 0;
	copy = dup_fd(old);
	if (IS_ERR(copy))
		return PTR_ERR(copy);
	current->files = copy;
	put_files_struct(old);
	return 0;
}

static int copy_fs(unsigned long clone_flags, struct task_struct *tsk)
{
	if (!current->fs)
		return 0;
	if (clone_flags & CLONE_FS) {
		current->fs->users++;
		return 0;
	}
	tsk->fs = copy_fs_struct(current->fs);
	return tsk->fs ? 0 : -ENOMEM;
}

static void rt_mutex_init_task(struct task_struct *p)
{
	p->journal_info = NULL;
	p->link_count = p->total_link_count = 0;
	p->rcu_read_lock_nesting = 0;
	p->rethooks = 0;
	p->rescue = NULL;
	p->sched_atomic = false;
}

static void task_init_kpfs(struct task_struct *p)
{
	memset(&p->req, 0, sizeof(p->req));
	memset(&p->nested, 0, sizeof(p->nested));
	memset(&p->host_op, 0, sizeof(p->host_op));
	p->thread.regs = NULL;
}

void ret_from_fork(void);

/* Make the frame that __switch_to_asm pops: r15 r14 r13 r12 rbx rbp and a return address. */
noinline int copy_thread(struct task_struct *p, const struct kernel_clone_args *args)
{
	unsigned long *frame = (unsigned long *)((unsigned long)task_pt_regs(p) & ~15UL) - 7;

	memset(frame, 0, 7 * sizeof(*frame));
	frame[3] = (unsigned long)args->fn_arg;
	frame[4] = (unsigned long)args->fn;
	frame[6] = (unsigned long)ret_from_fork;
	p->thread.sp = (unsigned long)frame;
	return 0;
}

static void init_task_links(struct task_struct *p)
{
	p->exit_state = p->exit_code = 0;
	p->pending = 0;
	p->utime = p->stime = 0;
	p->nvcsw = p->nivcsw = 0;
	p->start_time = sched_clock();
	p->vfork_done = NULL;
	INIT_LIST_HEAD(&p->children);
	INIT_LIST_HEAD(&p->sibling);
	INIT_LIST_HEAD(&p->tasks);
	INIT_LIST_HEAD(&p->wait_chldexit.head);
	spin_lock_init(&p->wait_chldexit.lock);
	INIT_HLIST_NODE(&p->pid_links);
}

static void copy_flags(struct task_struct *p, struct kernel_clone_args *args)
{
	p->flags &= ~(PF_IDLE | PF_KTHREAD | PF_EXITING | PF_HOST);
	p->flags |= PF_FORKNOEXEC;
	if (args->kthread)
		p->flags |= PF_KTHREAD;
	if (args->fn == kpfs_host_task)
		p->flags |= PF_HOST;
	p->exit_signal = args->exit_signal;
	if (args->set_comm)
		strscpy(p->comm, args->comm, TASK_COMM_LEN);
}

static void link_task(struct task_struct *p, unsigned long clone_flags)
{
	write_lock_irq(&tasklist_lock);
	p->group_leader = clone_flags & CLONE_THREAD ? current->group_leader : p;
	p->tgid = p->group_leader == p ? p->pid : current->tgid;
	p->real_parent = p->parent =
		clone_flags & (CLONE_PARENT | CLONE_THREAD) ? current->real_parent : current;
	list_add_tail(&p->sibling, &p->real_parent->children);
	list_add_tail(&p->tasks, &init_task.tasks);
	attach_pid(p);
	total_forks++;
	write_unlock_irq(&tasklist_lock);
}

/* Return true if what a child shares is enough for what else it is to share. */
static bool clone_flags_valid(unsigned long flags)
{
	if ((flags & (CLONE_NEWNS | CLONE_FS)) == (CLONE_NEWNS | CLONE_FS))
		return false;
	if ((flags & CLONE_THREAD) && !(flags & CLONE_SIGHAND))
		return false;
	if ((flags & CLONE_SIGHAND) && !(flags & CLONE_VM))
		return false;
	return !(flags & CLONE_PARENT) || current->pid > 1;
}

static noinline struct task_struct *copy_process(struct kernel_clone_args *args)
{
	unsigned long clone_flags = args->flags;
	struct task_struct *p;
	struct pid *pid;
	int retval;

	if (!clone_flags_valid(clone_flags))
		return ERR_PTR(-EINVAL);
	p = dup_task_struct(current);
	if (!p)
		return ERR_PTR(-ENOMEM);
	init_task_links(p);
	rt_mutex_init_task(p);
	task_init_kpfs(p);
	copy_flags(p, args);
	retval = copy_creds(p, args);
	if (retval)
		goto bad_fork_free;
	sched_fork(clone_flags, p);
	retval = copy_files(clone_flags, p, args->kthread);
	if (retval)
		goto bad_fork_free;
	retval = copy_fs(clone_flags, p);
	if (retval)
		goto bad_fork_cleanup_files;
	retval = copy_mm(clone_flags, p, args->kthread);
	if (retval)
		goto bad_fork_cleanup_fs;
	retval = copy_thread(p, args);
	if (retval)
		goto bad_fork_cleanup_mm;
	pid = alloc_pid(args->set_tid);
	if (IS_ERR(pid)) {
		retval = PTR_ERR(pid);
		goto bad_fork_cleanup_mm;
	}
	p->thread_pid = pid;
	p->pid = pid->nr;
	link_task(p, clone_flags);
	atomic_inc(&nr_threads);
	return p;

bad_fork_cleanup_mm:
	exit_mm(p);
bad_fork_cleanup_fs:
	exit_fs(p);
bad_fork_cleanup_files:
	exit_files(p);
bad_fork_free:
	free_task(p);
	return ERR_PTR(retval);
}

static int wait_for_vfork_done(struct task_struct *child, struct completion *vfork)
{
	wait_for_completion(vfork);
	put_task_struct(child);
	return 0;
}

static void complete_vfork_done(struct task_struct *tsk)
{
	struct completion *vfork = tsk->vfork_done;

	if (!vfork)
		return;
	tsk->vfork_done = NULL;
	complete(vfork);
}

void mm_release(struct task_struct *tsk)
{
	complete_vfork_done(tsk);
}

static __always_inline pid_t clone_task(struct kernel_clone_args *args)
{
	struct completion vfork;
	struct task_struct *p;
	pid_t nr;

	p = copy_process(args);
	if (IS_ERR(p))
		return PTR_ERR(p);
	trace_sched_process_fork(current, p);
	nr = p->pid;
	if (args->flags & CLONE_VFORK) {
		p->vfork_done = &vfork;
		init_completion(&vfork);
		get_task_struct(p);
	}
	wake_up_new_task(p);
	if (args->flags & CLONE_VFORK)
		wait_for_vfork_done(p, &vfork);
	return nr;
}

noinline pid_t kernel_clone(struct kernel_clone_args *args)
{
	return clone_task(args);
}

/*
 * Make a task. This has the name and the arguments that it had in Linux 2.6: the flags with the
 * signal to the parent, the child's stack, the registers of the caller. Our own arguments follow.
 */
noinline __legacy long do_fork(unsigned long clone_flags, unsigned long stack_start,
			       struct pt_regs *regs, unsigned long stack_size,
			       int __user *parent_tidptr, int __user *child_tidptr,
			       struct kernel_clone_args *args)
{
	return clone_task(args);
}

/* Make a task, under the name from 4.2 to 5.9. */
noinline __legacy long _do_fork(struct kernel_clone_args *args)
{
	struct pt_regs of_kernel = { .cs = KPFS_CS, .ss = KPFS_DS, .flags = X86_EFLAGS_IF }, *regs;

	regs = args->kthread || !current->thread.regs ? &of_kernel : current->thread.regs;
	return (pid_t)not_tail(
		do_fork(args->flags | args->exit_signal, regs->sp, regs, 0, NULL, NULL, args));
}

/* Make a task by the function that the configuration names. */
static __always_inline pid_t new_task(struct kernel_clone_args *args)
{
	return kpfs_configured(KPFS_CONFIG_LEGACY_SYMBOLS) ? _do_fork(args) : kernel_clone(args);
}

pid_t kernel_thread(int (*fn)(void *), void *arg, unsigned long flags)
{
	struct kernel_clone_args args = {
		.flags = flags | CLONE_VM, .fn = fn, .fn_arg = arg, .kthread = 1
	};

	return new_task(&args);
}

/* Make the idle task of a CPU other than 0: it already has a stack. */
struct task_struct *__init fork_idle(int cpu)
{
	struct task_struct *p = alloc_task_struct_node();

	*p = init_task;
	init_task_links(p);
	refcount_set(&p->usage, 2);
	p->stack = STACK_SLOT(cpu);
	p->group_leader = p;
	init_idle(p, cpu);
	return p;
}

/* Return true if Python has this task make the call: no program could go on in a child. */
static bool called_by_host(void)
{
	return current->req.kind != REQ_NONE || current->nested.kind != REQ_NONE;
}

/* End such a child at once. */
static int child_without_program(void *unused)
{
	return 0;
}

/* Return what a child runs: a program of ours by its address, or what Python asks of it. */
static int (*child_function(unsigned long address, bool named))(void *)
{
	if (!called_by_host())
		return address ? (int (*)(void *))address : kpfs_host_task;
	return named ? kpfs_host_task : child_without_program;
}

static int copy_clone_args_from_user(struct kernel_clone_args *kargs,
				     struct kpfs_clone_args __user *uargs, size_t usize)
{
	struct kpfs_clone_args args = { .uid = ~0u, .gid = ~0u };

	if (usize < 64)
		return -EINVAL;
	if (usize > sizeof(args))
		return -E2BIG;
	if (copy_from_user(&args, uargs, usize))
		return -EFAULT;
	*kargs = (struct kernel_clone_args){
		.flags = args.flags,
		.exit_signal = args.exit_signal,
		.fn = child_function(args.stack, args.comm != 0),
		.fn_arg = (void *)args.stack_size,
		.set_cred = true,
		.uid = args.uid,
		.gid = args.gid,
	};
	if (args.set_tid_size > 1 || (args.set_tid_size && !args.set_tid))
		return -EINVAL;
	if (args.set_tid_size &&
	    copy_from_user(&kargs->set_tid, (void __user *)args.set_tid, sizeof(pid_t)))
		return -EFAULT;
	if (args.comm) {
		kargs->flags &= ~CLONE_VFORK; /* it does not end by itself */
		kargs->set_comm = true;
		if (strncpy_from_user(kargs->comm, (void __user *)args.comm, TASK_COMM_LEN) < 0)
			return -EFAULT;
		kargs->comm[TASK_COMM_LEN - 1] = 0;
	}
	return 0;
}

static bool clone3_args_valid(const struct kernel_clone_args *kargs)
{
	return kargs->set_tid >= 0 && !(kargs->flags & CLONE_THREAD && kargs->exit_signal);
}

SYSCALL_DEFINE2(clone3, struct kpfs_clone_args __user *, uargs, size_t, size)
{
	struct kernel_clone_args kargs;
	int err = copy_clone_args_from_user(&kargs, uargs, size);

	if (err)
		return err;
	return clone3_args_valid(&kargs) ? new_task(&kargs) : -EINVAL;
}

SYSCALL_DEFINE0(fork)
{
	struct kernel_clone_args args = { .exit_signal = SIGCHLD, .fn = child_function(0, false) };

	return new_task(&args);
}

SYSCALL_DEFINE5(clone, unsigned long, clone_flags, unsigned long, newsp, int __user *,
		parent_tidptr, int __user *, child_tidptr, unsigned long, tls)
{
	struct kernel_clone_args args = {
		.flags = clone_flags & ~0xffUL & ~CLONE_VFORK,
		.exit_signal = clone_flags & 0xff,
		.fn = child_function(newsp, false),
		.fn_arg = (void *)tls,
	};

	return new_task(&args);
}

int nr_processes(void)
{
	return atomic_read(&nr_threads);
}

void dec_nr_threads(void)
{
	atomic_dec(&nr_threads);
}

void __init fork_init(void)
{
	task_struct_cachep = KMEM_CACHE(task_struct, SLAB_HWCACHE_ALIGN | SLAB_PANIC);
	INIT_LIST_HEAD(&init_task.tasks);
	INIT_LIST_HEAD(&init_task.children);
	INIT_LIST_HEAD(&init_task.sibling);
	INIT_LIST_HEAD(&init_task.wait_chldexit.head);
}
