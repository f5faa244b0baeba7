// SPDX-License-Identifier: GPL-2.0-or-later
/* Probes of all kinds that a test registers and switches one by one: see NR and kinds. */
#include <linux/completion.h>
#include <linux/kprobes.h>
#include <linux/kthread.h>
#include <linux/module.h>

#define ENTRY __attribute__((__noipa__))
#define NR 8
/* 0 to 3: kprobes; 4, 5: return probes; 6, 7: jprobes */
unsigned long hits[NR], posts[NR];
static struct kprobe kps[4];
static struct kretprobe rps[2];
static struct jprobe jps[2];
static const struct {
	const char *symbol;
	unsigned int offset;
} where[NR] = {
	{ "first", 0 }, { "first", 0 },  { "first", 5 }, { "second", 0 },
	{ "first", 0 }, { "second", 0 }, { "first", 0 }, { "first", 0 },
};

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	hits[p - kps]++;
	return 0;
}
static void post(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	posts[p - kps]++;
}
static int returned(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	hits[4 + (ri->rp - rps)]++;
	return 0;
}
static long entered(long x)
{
	hits[6]++;
	jprobe_return();
	return 0;
}
static long entered2(long x)
{
	hits[7]++;
	jprobe_return();
	return 0;
}

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
	return i < 4 ? register_kprobe(&kps[i]) :
	       i < 6 ? register_kretprobe(&rps[i - 4]) :
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

static int batch_of(int first, int n, void **batch)
{
	int i;

	for (i = first; i < first + n; i++)
		*batch++ = i < 4 ? (void *)&kps[i] :
			   i < 6 ? (void *)&rps[i - 4] :
				   (void *)&jps[i - 6];
	return n;
}

/* All of one kind. */
ENTRY int do_register_batch(int first, int n)
{
	void *batch[4];
	int i;

	for (i = first; i < first + n; i++)
		prepare(i);
	batch_of(first, n, batch);
	return first < 4 ? register_kprobes((struct kprobe **)batch, n) :
	       first < 6 ? register_kretprobes((struct kretprobe **)batch, n) :
			   register_jprobes((struct jprobe **)batch, n);
}

ENTRY void do_unregister_batch(int first, int n)
{
	void *batch[4];

	batch_of(first, n, batch);
	if (first < 4)
		unregister_kprobes((struct kprobe **)batch, n);
	else if (first < 6)
		unregister_kretprobes((struct kretprobe **)batch, n);
	else
		unregister_jprobes((struct jprobe **)batch, n);
}

/* On every CPU at once, taking turns, n times a function of the other module. */
static long (*called)(long);
static DECLARE_COMPLETION(done);
static unsigned long wrong;
static int caller(void *n)
{
	long i, expected = called(1);

	for (i = 1; i < (long)n; i++) {
		wrong += called(1) != expected;
		kpfs_yield();
	}
	complete(&done);
	return 0;
}

ENTRY long do_call_everywhere(long (*function)(long), long n)
{
	int cpu;

	called = function;
	for_each_online_cpu(cpu) {
		struct task_struct *t = kthread_create(caller, (void *)n, "caller/%d", cpu);

		kthread_bind(t, cpu);
		wake_up_process(t);
	}
	for_each_online_cpu(cpu)
		wait_for_completion(&done);
	return wrong;
}

/* Nobody is hit in a handler, no return probe runs out of instances. */
ENTRY unsigned long do_missed(void)
{
	unsigned long missed = 0;
	int i;

	for (i = 0; i < NR; i++)
		missed += kp_of(i)->nmissed;
	for (i = 0; i < 2; i++)
		missed += rps[i].nmissed;
	return missed;
}

ENTRY int do_enable(int i)
{
	return enable_kprobe(kp_of(i));
}
ENTRY int do_disable(int i)
{
	return disable_kprobe(kp_of(i));
}

MODULE_LICENSE("GPL");
