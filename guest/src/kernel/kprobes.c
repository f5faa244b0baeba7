// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The programming interface of kprobes. The engine that does the work is outside the
 * guest; what it needs of a module's structures it reads and writes where they lie.
 */
#include <kpfs/control.h>
#include <kpfs/hypercall.h>
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>

/* Modules see the engine's struct kp_rethook_node under the name that Linux has for it. */
#define AT(field, at) static_assert(offsetof(struct kretprobe_instance, field) == (at), "runtime.h")
AT(ret_addr, 16);
AT(task, 32);
AT(rp, 48);
AT(data, 56);
static_assert(offsetof(struct kprobe, nmissed) == 32, "KPROBE_NMISSED in runtime.h");
static_assert(offsetof(struct kretprobe, nmissed) == 148, "KRETPROBE_NMISSED in runtime.h");

/*
 * Wait for handlers that other CPUs are in the middle of: what they use may be freed then.
 * The effect of synchronize_rcu(), for handlers run with preemption off.
 */
static noinline void kprobes_synchronize(void)
{
	long found, cpus = LONG_MAX;

	while ((found = kpfs_control(CTL_KPROBES_HANDLED, 0, 0)) > 0 && (cpus &= found))
		kpfs_yield();
}

/* Ask the engine. As with a mutex, one may sleep first. */
static noinline int kprobes_call(unsigned long nr, void *array, int num)
{
	int ret;

	might_sleep();
	if (num <= 0)
		return -EINVAL;
	ret = kpfs_control(nr, (unsigned long)array, num);
	if ((nr & 0xf) == CTL_UNREGISTER) {
		if (preempt_count()) /* a handler, say: it sleeps all the same, and that is said */
			synchronize_rcu();
		kprobes_synchronize();
	}
	return ret;
}

/* Define register_KIND() and unregister_KIND(), of one and of several. */
#define PROBE_KIND(kind, number) \
int register_##kind(struct kind *p) \
{ \
	return kprobes_call(number + CTL_REGISTER, &p, 1); \
} \
int register_##kind##s(struct kind **ps, int num) \
{ \
	return kprobes_call(number + CTL_REGISTER, ps, num); \
} \
void unregister_##kind(struct kind *p) \
{ \
	kprobes_call(number + CTL_UNREGISTER, &p, 1); \
} \
void unregister_##kind##s(struct kind **ps, int num) \
{ \
	kprobes_call(number + CTL_UNREGISTER, ps, num); \
}
PROBE_KIND(kprobe, CTL_KPROBES)
PROBE_KIND(kretprobe, CTL_KRETPROBES)
PROBE_KIND(jprobe, CTL_JPROBES)

int enable_kprobe(struct kprobe *kp)
{
	return kprobes_call(CTL_KPROBES + CTL_ENABLE, &kp, 1);
}

int disable_kprobe(struct kprobe *kp)
{
	return kprobes_call(CTL_KPROBES + CTL_DISABLE, &kp, 1);
}

struct kprobe *get_kprobe(void *addr)
{
	return (struct kprobe *)kpfs_control(CTL_GET_KPROBE, (unsigned long)addr, 0);
}
NOKPROBE_SYMBOL(get_kprobe);

noinline struct kprobe *kprobe_running(void)
{
	return (struct kprobe *)kpfs_control(CTL_KPROBE_RUNNING, 0, 0);
}
NOKPROBE_SYMBOL(kprobe_running);

/* Linux's per-CPU variables, for modules that read them; the engine has its own. */
static DEFINE_PER_CPU(struct kprobe *, running_kprobe);
static DEFINE_PER_CPU(struct kprobe_ctlblk, kprobe_ctlblk);

struct kprobe **__current_kprobe(void)
{
	this_cpu_write(running_kprobe, kprobe_running());
	return &running_kprobe;
}
NOKPROBE_SYMBOL(__current_kprobe);

struct kprobe_ctlblk *get_kprobe_ctlblk(void)
{
	struct kprobe_ctlblk *kcb = this_cpu_ptr(&kprobe_ctlblk);

	kpfs_control(CTL_KPROBE_CTLBLK, (unsigned long)kcb, 0);
	return kcb;
}
NOKPROBE_SYMBOL(get_kprobe_ctlblk);

/*
 * Give back the instances of a dead task, which will not return from functions: they go to the
 * free lists. Words of struct kp_rethook_node and kp_rethook: see runtime/runtime.h.
 */
void kprobe_flush_task(struct task_struct *tk)
{
	enum { NODE_NEXT = 0, NODE_RETHOOK = 1, RETHOOK_FREE = 0 };
	unsigned long *node = (unsigned long *)tk->rethooks, *next, *rethook;

	for (tk->rethooks = 0; node; node = next) {
		next = (unsigned long *)node[NODE_NEXT];
		rethook = (unsigned long *)node[NODE_RETHOOK];
		node[NODE_NEXT] = rethook[RETHOOK_FREE];
		rethook[RETHOOK_FREE] = (unsigned long)node;
	}
}
NOKPROBE_SYMBOL(kprobe_flush_task);

/*
 * End a jprobe's entry function: the trap brings the probed function's state back. There is room
 * for the jump to the engine's code that takes its place once there are jprobes.
 */
__kprobes void jprobe_return(void)
{
	asm volatile("int3\n.globl jprobe_return_end\njprobe_return_end: nop; nop; nop; nop"
		     :
		     :
		     : "memory");
}
