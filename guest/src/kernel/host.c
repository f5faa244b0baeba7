// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Requests of the host. A task that stands for a process of the host sleeps until Python
 * has put a request in it, serves it and says so. A file of the mount asks Python back.
 */
#include <kpfs/hypercall.h>
#include <linux/fdtable.h>
#include <linux/host.h>
#include <linux/mm.h>
#include <linux/signal.h>

extern struct kpfs_log kpfs_log;

static struct kpfs_wakeups *wakeups;
unsigned long kpfs_config;

void __init kpfs_host_init(const struct kpfs_boot_params *params)
{
	wakeups = (struct kpfs_wakeups *)params->wakeups;
	kpfs_config = params->config;
}

typedef long (*host_call_t)(long, long, long, long, long, long);

static noinline long kpfs_call(const struct kpfs_request *req)
{
	host_call_t fn = (host_call_t)req->args[0];

	return fn(req->args[1], req->args[2], req->args[3], req->args[4], req->args[5],
		  req->args[6]);
}

/* Make one system call after the other, as a program does. */
static noinline long kpfs_syscalls(struct kpfs_request *req)
{
	struct kpfs_request *calls = (struct kpfs_request *)req->args[0];
	long ret = 0;

	for (req->nr = 0; req->nr < READ_ONCE(req->args[1]) && ret >= 0;) {
		if (req->nr)
			hypercall(HC_CLOCK, CLOCK_STEP);
		ret = entry_SYSCALL_64(&calls[req->nr++]);
	}
	return ret;
}

static noinline void kpfs_serve(struct kpfs_request *req)
{
	long ret;

	switch (req->kind) {
	case REQ_SYSCALL:  ret = entry_SYSCALL_64(req); break;
	case REQ_CALL:     ret = kpfs_call(req); break;
	case REQ_SYSCALLS: ret = kpfs_syscalls(req); break;
	default:           ret = -EINVAL;
	}
	req->ret = ret;
	WRITE_ONCE(req->kind, REQ_NONE);
}

/*
 * Let pid 1 live on, with an empty stack, after an oops in what Python had it call: that call
 * fails.
 */
void __noreturn kpfs_host_restart(void)
{
	struct task_struct *tsk = current;
	unsigned long top = (unsigned long)task_pt_regs(tsk) & ~15UL;

	if (tsk->req.kind == REQ_NONE)
		panic("Attempted to kill init!");
	tsk->nested.kind = REQ_NONE;
	tsk->req.ret = -EFAULT;
	tsk->req.kind = REQ_NONE;
	set_preempt_count_zero();
	local_irq_enable();
	end_turn_soon();
	__asm__ __volatile__("mov %0, %%rsp\n\txor %%edi, %%edi\n\tcall kpfs_host_task"
			     :
			     : "r"(top)
			     : "memory");
	unreachable();
}

int kpfs_host_task(void *unused)
{
	for (;;) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (READ_ONCE(current->req.kind) == REQ_NONE) {
			/* as a program between two system calls */
			if (signal_pending(current))
				arch_do_signal_or_restart(NULL);
			schedule();
			continue;
		}
		__set_current_state(TASK_RUNNING);
		kpfs_serve(&current->req);
		end_turn_soon();
	}
	return 0;
}

/*
 * Ask Python what *op says. Python may first want requests of its own served, in this very system
 * call; these may come back here, so the question stands in the task only while it is asked.
 */
long kpfs_host_op(struct kpfs_host_op *op)
{
	struct task_struct *tsk = current;

	for (;;) {
		tsk->host_op = *op;
		hypercall(HC_HOST_OP, tsk->pid);
		*op = tsk->host_op;
		if (tsk->nested.kind == REQ_NONE)
			return op->ret;
		kpfs_serve(&tsk->nested);
	}
}

/* Wake a task from a sleep, as a signal has come to its process on the host. */
int kpfs_interrupt(struct task_struct *tsk)
{
	set_bit(0, &tsk->pending);
	return wake_up_state(tsk, TASK_INTERRUPTIBLE);
}

/* Wake the tasks that Python has listed for this CPU, from the reschedule interrupt. */
void kpfs_wake_requested(void)
{
	struct kpfs_wakeups *w = &wakeups[smp_processor_id()];
	unsigned long i, nr = w->nr;

	w->nr = 0;
	for (i = 0; i < nr; i++) {
		struct task_struct *p = (struct task_struct *)w->task[i];

		if (unlikely(task_cpu(p) != (unsigned int)smp_processor_id()))
			sched_pull_task(p);
		wake_up_process(p);
	}
}

#define INFO(field) __builtin_offsetof(struct task_struct, field)
const struct kpfs_guest_info kpfs_guest_info = {
	.magic = 0x6f666e697366706bUL,
	.task_pid = INFO(pid),
	.task_uid = INFO(cred[0].uid),
	.task_comm = INFO(comm),
	.task_req = INFO(req),
	.task_user_base = INFO(user_base),
	.task_cpu = INFO(cpu),
	.task_next = INFO(tasks.next),
	.task_rethooks = INFO(rethooks),
	.task_untouched = INFO(untouched),
	.task_size = sizeof(struct task_struct),
	.task_nested = INFO(nested),
	.task_host_op = INFO(host_op),
	.task_on_rq = INFO(on_rq),
	.task_quiescent = INFO(nr_quiescent),
	.task_files = INFO(files),
	.files_id = __builtin_offsetof(struct files_struct, id),
	.percpu_base = (unsigned long)__per_cpu_start,
	.percpu_size = (unsigned long)__per_cpu_size,
	.log = (unsigned long)&kpfs_log,
	.init_task = (unsigned long)&init_task,
};
/* For the assembly of the context switch. */
const unsigned int task_thread_sp = INFO(thread.sp);
