// SPDX-License-Identifier: GPL-2.0-or-later
/* Probes with handlers that do nothing, and a loop to call what they probe. */
#include <linux/kprobes.h>
#include <linux/module.h>

/* No entry nop: a probe on it is a breakpoint. */
notrace __attribute__((__noipa__)) long bench_target(long x)
{
	return x + 1;
}

/* The same with an instruction that runs by a single step, and with an entry nop. */
long bench_stepped(long x);
__asm__(".text\n"
	".globl bench_stepped\n"
	".type bench_stepped, @function\n"
	"bench_stepped: incq %rdi\n"
	"	movq %rdi, %rax\n"
	"	ret\n"
	"	nop; nop; nop; nop\n"
	".size bench_stepped, .-bench_stepped\n");

__attribute__((__noipa__)) long bench_traced(long x)
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
LOOP(bench_loop, bench_target)
LOOP(bench_loop_stepped, bench_stepped)
LOOP(bench_loop_traced, bench_traced)

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

static char *probes = "", *target = "bench_target";
module_param(probes, charp, 0);
module_param(target, charp, 0);

static int __init bench_init(void)
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

static void __exit bench_exit(void)
{
	unregister_kprobe(&kp);
	unregister_jprobe(&jp);
	unregister_kretprobe(&rp);
}

module_init(bench_init);
module_exit(bench_exit);
MODULE_LICENSE("GPL");
