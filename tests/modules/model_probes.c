// SPDX-License-Identifier: GPL-2.0-or-later
/* Probes of all kinds that a test registers and switches one by one: see NR and kinds. */
#include <linux/kprobes.h>
#include <linux/module.h>

#define ENTRY __attribute__((__noipa__))
#define NR 8
/* 0 to 3: kprobes; 4, 5: return probes; 6, 7: jprobes */
unsigned long hits[NR], posts[NR];
static struct kprobe kps[4];
static struct kretprobe rps[2];
static struct jprobe jps[2];
static const struct { const char *symbol; unsigned int offset; } where[NR] = {
	{ "first", 0 }, { "first", 0 }, { "first", 5 }, { "second", 0 },
	{ "first", 0 }, { "second", 0 }, { "first", 0 }, { "first", 0 },
};

static int pre(struct kprobe *p, struct pt_regs *regs) { hits[p - kps]++; return 0; }
static void post(struct kprobe *p, struct pt_regs *regs, unsigned long flags) { posts[p - kps]++; }
static int returned(struct kretprobe_instance *ri, struct pt_regs *regs) { hits[4 + (ri->rp - rps)]++; return 0; }
static long entered(long x) { hits[6]++; jprobe_return(); return 0; }
static long entered2(long x) { hits[7]++; jprobe_return(); return 0; }

static struct kprobe *kp_of(int i)
{
	return i < 4 ? &kps[i] : i < 6 ? &rps[i - 4].kp : &jps[i - 6].kp;
}

static void prepare(int i)
{
	struct kprobe *p = kp_of(i);

	p->symbol_name = where[i].symbol;
	p->offset = where[i].offset;
	p->addr = NULL;
	p->flags = 0;
	if (i < 4)
		p->pre_handler = pre;
	if (i == 1)
		p->post_handler = post;
	if (i >= 4 && i < 6)
		rps[i - 4].handler = returned;
	if (i >= 6)
		jps[i - 6].entry = i == 6 ? entered : entered2;
}

ENTRY int do_register(int i, int disabled)
{
	prepare(i);
	if (disabled)
		kp_of(i)->flags = KPROBE_FLAG_DISABLED;
	return i < 4 ? register_kprobe(&kps[i]) : i < 6 ? register_kretprobe(&rps[i - 4]) :
		register_jprobe(&jps[i - 6]);
}

ENTRY void do_unregister(int i)
{
	if (i < 4)
		unregister_kprobe(&kps[i]);
	else if (i < 6)
		unregister_kretprobe(&rps[i - 4]);
	else
		unregister_jprobe(&jps[i - 6]);
}

ENTRY int do_register_batch(int first, int n)
{
	struct kprobe *batch[4];
	int i;

	for (i = 0; i < n; i++) {
		prepare(first + i);
		batch[i] = &kps[first + i];
	}
	return register_kprobes(batch, n);
}

ENTRY int do_enable(int i) { return enable_kprobe(kp_of(i)); }
ENTRY int do_disable(int i) { return disable_kprobe(kp_of(i)); }

static int __init probes_init(void) { return 0; }
static void __exit probes_exit(void) { }
module_init(probes_init);
module_exit(probes_exit);
MODULE_LICENSE("GPL");
