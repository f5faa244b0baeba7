// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What a module finds in the headers beside linux/kprobes.h, and what a registered probe looks
 * like. It uses nothing but Linux's interface, so that a real kernel can be asked the same.
 */
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/kdebug.h>
#include <linux/kprobes.h>
#include <linux/kthread.h>
#include <linux/limits.h>
#include <linux/module.h>
#include <linux/ptrace.h>
#include <linux/semaphore.h>
#include <linux/smp.h>
#include <linux/uaccess.h>
#include <linux/uio.h>

#define SAY(what) pr_info("said: %s = %ld\n", #what, (long)(what))

/* nopl 64(%rax), of four bytes; then what gives its argument and one more */
asm(".pushsection .text\n.globl probed\n.type probed, @function\n"
    "probed: .byte 0x0f, 0x1f, 0x40, 0x40\n"
    "lea 1(%rdi), %rax\n"
    ".byte 0xc3\n"
    ".size probed, . - probed\n.popsection");
long probed(long x);

static struct kprobe kp;
static char copied[8];
static unsigned long left, left_of_nothing;
static int in_handler, nr_int3, trapnr, order[2], nr_order;
static DEFINE_SEMAPHORE(sem);

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	in_handler = in_interrupt() ? 2 : 1;
	pagefault_disable();
	left = __copy_from_user_inatomic(copied, (void __user *)0x1000, sizeof(copied));
	left_of_nothing = __copy_from_user_inatomic(copied, (void __user *)0x1000, 0);
	pagefault_enable();
	return 0;
}

static void post(struct kprobe *p, struct pt_regs *regs, unsigned long flags) {}

static void say_probe(void)
{
	u32 insn = *(u32 *)probed;

	kp.symbol_name = "probed";
	kp.pre_handler = pre;
	kp.post_handler = post; /* so that it stays a breakpoint, however long this takes */
	SAY(register_kprobe(&kp));
	SAY(kp.addr == (kprobe_opcode_t *)probed);
	SAY(kp.opcode);
	SAY(kp.ainsn.insn != NULL);
	SAY(kp.ainsn.insn && *(u32 *)kp.ainsn.insn == insn);
	SAY(kp.ainsn.size);
	SAY(kp.flags & ~KPROBE_FLAG_OPTIMIZED);
	SAY(probed(41));
	SAY(in_handler);
	SAY(left);
	SAY(left_of_nothing);
	SAY(kp.nmissed);
	unregister_kprobe(&kp);
	SAY(kp.addr == (kprobe_opcode_t *)probed);
	kp.addr = NULL;
	kp.flags = 0;
	SAY(register_kprobe(&kp));
	SAY(kp.ainsn.boostable);
	SAY(kp.ainsn.size);
	unregister_kprobe(&kp);
}

static int on_die(struct notifier_block *nb, unsigned long val, void *data)
{
	struct die_args *args = data;

	if (val != DIE_INT3 || args->regs->di != 0x1d1e)
		return NOTIFY_DONE;
	nr_int3++;
	trapnr = args->trapnr;
	SAY(args->err);
	SAY(args->signr);
	return NOTIFY_STOP;
}
static struct notifier_block die_nb = { .notifier_call = on_die };

static void say_die(void)
{
	SAY(register_die_notifier(&die_nb));
	asm volatile("int3" : : "D"(0x1d1eUL));
	SAY(nr_int3);
	SAY(trapnr);
	SAY(unregister_die_notifier(&die_nb));
	SAY(unregister_die_notifier(&die_nb));
	SAY(DIE_OOPS);
	SAY(DIE_DEBUG);
	SAY(DIE_GPF);
	SAY(DIE_PAGE_FAULT);
}

static int taker(void *unused)
{
	down(&sem);
	order[nr_order++] = 2;
	up(&sem);
	return 0;
}

static void say_semaphore(void)
{
	SAY(down_trylock(&sem));
	SAY(down_trylock(&sem));
	SAY(down_timeout(&sem, 2));
	kthread_run(taker, NULL, "taker");
	msleep(20);
	order[nr_order++] = 1;
	up(&sem);
	msleep(20);
	SAY(nr_order);
	SAY(order[0]);
	SAY(order[1]);
	SAY(down_interruptible(&sem));
	up(&sem);
	SAY(down_killable(&sem));
	up(&sem);
}

static void say_cpus(void)
{
	struct cpumask set;
	unsigned int cpu, n = 0;

	for_each_cpu(cpu, cpu_online_mask) n++;
	SAY(n == num_online_cpus());
	SAY(n == cpumask_weight(cpu_online_mask));
	SAY(cpumask_test_cpu(raw_smp_processor_id(), cpu_online_mask));
	SAY(cpumask_next(nr_cpu_ids - 1, cpu_possible_mask) >= nr_cpu_ids);
	cpumask_clear(&set);
	SAY(cpumask_empty(&set));
	SAY(cpumask_first(&set) >= nr_cpu_ids);
	SAY(cpumask_test_and_set_cpu(0, &set));
	SAY(cpumask_test_and_set_cpu(0, &set));
	SAY(cpumask_first(&set));
	SAY(cpumask_subset(&set, cpu_possible_mask));
	SAY(cpumask_intersects(&set, cpu_online_mask));
	SAY(cpumask_and(&set, &set, cpu_online_mask));
	SAY(cpumask_andnot(&set, &set, cpu_online_mask));
}

static int __init kprobe_calls_init(void)
{
	say_probe();
	say_die();
	say_semaphore();
	say_cpus();
	SAY(NAME_MAX);
	SAY(PATH_MAX);
	SAY(S32_MAX);
	SAY(S16_MIN);
	SAY(U16_MAX);
	SAY(SIZE_MAX == ULONG_MAX);
	SAY(sizeof(struct kvec));
	return 0;
}

static void __exit kprobe_calls_exit(void) {}

module_init(kprobe_calls_init);
module_exit(kprobe_calls_exit);
MODULE_LICENSE("GPL");
