// SPDX-License-Identifier: GPL-2.0-or-later
/* Kernel threads: kthreadd makes them, on behalf of any task. */
#include <linux/completion.h>
#include <linux/kernel.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/pid.h>

struct kthread_create_info {
	int (*threadfn)(void *);
	void *data;
	struct task_struct *result;
	struct completion *done;
	struct list_head list;
};
struct kthread {
	bool should_stop;
	int result;
	struct completion exited;
};

pid_t kthreadd_task_pid;
static struct task_struct *kthreadd_task;
static LIST_HEAD(kthread_create_list);
static DEFINE_SPINLOCK(kthread_create_lock);

static inline struct kthread *to_kthread(struct task_struct *k)
{
	return k->kthread;
}

bool kthread_should_stop(void)
{
	return READ_ONCE(to_kthread(current)->should_stop);
}

static void __noreturn kthread_exit(long result)
{
	struct kthread *kthread = to_kthread(current);

	kthread->result = result;
	complete(&kthread->exited);
	do_exit(0);
}

/* End a kernel thread after telling a waiter, whose module may go from then on. */
noinline void __noreturn kthread_complete_and_exit(struct completion *comp, long code)
{
	if (comp)
		complete(comp);
	kthread_exit(code);
}

/* Run the child: sleep until it is woken for good. */
static int kthread(void *_create)
{
	struct kthread_create_info *create = _create;
	int (*threadfn)(void *) = create->threadfn;
	void *data = create->data;
	struct kthread *self = kzalloc(sizeof(*self), GFP_KERNEL);

	init_completion(&self->exited);
	current->kthread = self;
	create->result = current;
	__set_current_state(TASK_UNINTERRUPTIBLE);
	complete(create->done);
	schedule();
	kthread_exit(self->should_stop ? -EINTR : threadfn(data));
	return 0;
}

static void create_kthread(struct kthread_create_info *create)
{
	int pid = kernel_thread(kthread, create, 0);

	if (pid < 0) {
		create->result = ERR_PTR(pid);
		complete(create->done);
	}
}

int kthreadd(void *unused)
{
	kthreadd_task = current;
	set_task_comm(current, "kthreadd");
	for (;;) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (list_empty(&kthread_create_list))
			schedule();
		__set_current_state(TASK_RUNNING);
		spin_lock(&kthread_create_lock);
		while (!list_empty(&kthread_create_list)) {
			struct kthread_create_info *create;

			create = list_first_entry(&kthread_create_list, struct kthread_create_info,
						  list);
			list_del_init(&create->list);
			spin_unlock(&kthread_create_lock);
			create_kthread(create);
			spin_lock(&kthread_create_lock);
		}
		spin_unlock(&kthread_create_lock);
	}
	return 0;
}

static noinline struct task_struct *__kthread_create_on_node(int (*fn)(void *), void *data, int cpu,
							     const char *name)
{
	DECLARE_COMPLETION_ONSTACK(done);
	struct kthread_create_info create = { .threadfn = fn, .data = data, .done = &done };

	spin_lock(&kthread_create_lock);
	list_add_tail(&create.list, &kthread_create_list);
	spin_unlock(&kthread_create_lock);
	if (kthreadd_task)
		wake_up_process(kthreadd_task);
	wait_for_completion(&done);
	if (!IS_ERR(create.result)) {
		set_task_comm(create.result, name);
		if (cpu >= 0)
			kthread_bind(create.result, cpu);
	}
	return create.result;
}

struct task_struct *kthread_create_on_node(int (*fn)(void *), void *data, int node,
					   const char *namefmt, ...)
{
	char name[TASK_COMM_LEN];

	with_va_list(args, namefmt, vsnprintf(name, sizeof(name), namefmt, args));
	return __kthread_create_on_node(fn, data, -1, name);
}

struct task_struct *kthread_create_on_cpu(int (*fn)(void *), void *data, int cpu,
					  const char *namefmt)
{
	char name[TASK_COMM_LEN];

	snprintf(name, sizeof(name), namefmt, cpu);
	return __kthread_create_on_node(fn, data, cpu, name);
}

/* Bind a thread that sleeps and waits for its first wake-up, once it is off its CPU. */
noinline void kthread_bind(struct task_struct *k, unsigned int cpu)
{
	while (READ_ONCE(k->on_rq))
		yield();
	k->cpu = cpu;
	k->cpus_ptr = cpumask_of(cpu);
}

int kthread_stop(struct task_struct *k)
{
	struct kthread *kthread = to_kthread(k);
	int ret;

	get_task_struct(k);
	kthread->should_stop = true;
	wake_up_process(k);
	wait_for_completion(&kthread->exited);
	ret = kthread->result;
	put_task_struct(k);
	kfree(kthread);
	return ret;
}
