// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The cost of a hit: probes with handlers that do nothing, and loops to call what they probe, for
 * kpfs top and for scripts/bench. Parameters: target; probes, of the letters k, j and r.
 */
#include <linux/kprobes.h>
#include <linux/module.h>

/* No entry nop: a probe on it is a breakpoint. */
notrace __attribute__((__noipa__)) long cost_plain(long x)
{
	return x + 1;
}

/* A function with an instruction that runs by a single step, and one with an entry nop. */
long cost_stepped(long x);
__asm__(".text\n"
	".globl cost_stepped\n"
	".type cost_stepped, @function\n"
	"cost_stepped: incq %rdi\n"
	"	movq %rdi, %rax\n"
	"	ret\n"
	"	nop; nop; nop; nop\n"
	".size cost_stepped, .-cost_stepped\n");

__attribute__((__noipa__)) long cost_traced(long x)
{
	return x + 1;
}

#define LOOP(name, target)                                                                         \
	__attribute__((__noipa__)) long name(long n)                                               \
	{                                                                                          \
		long sum = 0;                                                                      \
                                                                                                   \
		while (n--)                                                                        \
			sum += target(n);                                                          \
		return sum;                                                                        \
	}
LOOP(cost_loop, cost_plain)
LOOP(cost_loop_stepped, cost_stepped)
LOOP(cost_loop_traced, cost_traced)

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	return 0;
}
static int ret(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	return 0;
}
static long entry(long x)
{
	jprobe_return();
	return 0;
}

static struct kprobe kp = { .pre_handler = pre };
static struct kretprobe rp = { .handler = ret };
static struct jprobe jp = { .entry = entry };

static char *probes = "", *target = "cost_plain";
module_param(probes, charp, 0);
module_param(target, charp, 0);

static int __init cost_init(void)
{
	int err = 0;

	kp.symbol_name = rp.kp.symbol_name = jp.kp.symbol_name = target;
	if (strchr(probes, 'k'))
		err = register_kprobe(&kp);
	if (!err && strchr(probes, 'j'))
		err = register_jprobe(&jp);
	if (!err && strchr(probes, 'r'))
		err = register_kretprobe(&rp);
	return err;
}

static void __exit cost_exit(void)
{
	unregister_kprobe(&kp);
	unregister_jprobe(&jp);
	unregister_kretprobe(&rp);
}

module_init(cost_init);
module_exit(cost_exit);
MODULE_LICENSE("GPL");
