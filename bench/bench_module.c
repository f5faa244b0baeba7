// SPDX-License-Identifier: GPL-2.0-or-later
/* Probes with handlers that do nothing, and a loop to call what they probe. */
#include <linux/kprobes.h>
#include <linux/module.h>

/* No entry nop: a probe on it is a breakpoint. */
notrace __attribute__((__noipa__)) long bench_target(long x)
{
	return x + 1;
}

__attribute__((__noipa__)) long bench_loop(long n)
{
	long sum = 0;

	while (n--)
		sum += bench_target(n);
	return sum;
}

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

static struct kprobe kp = { .symbol_name = "bench_target", .pre_handler = pre };
static struct kretprobe rp = { .kp.symbol_name = "bench_target", .handler = ret };
static struct jprobe jp = { .kp.symbol_name = "bench_target", .entry = entry };

static char *probes = "";
module_param(probes, charp, 0);

static int __init bench_init(void)
{
	int err = 0;

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
