// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Data breakpoints by Linux's interface alone, for tests/conformance/modules. What QEMU does not do
 * as a processor is left out: it reports the first of two breakpoints at one access, says that the
 * last round of a repeated instruction ends at the instruction, and lets an unaligned store behind
 * the watched bytes count.
 */
#include <linux/hw_breakpoint.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/perf_event.h>
#include <linux/preempt.h>
#include <linux/sched.h>

static u64 watched[8] __aligned(64);
static struct hit {
	unsigned long ip;
	u64 value;
	s64 count;
	int type, own_cpu, nmi, hardirq, irqs_off;
	void *context;
} hits[8];
static int nr_hits, nested;

static void note(struct perf_event *bp, struct perf_sample_data *data, struct pt_regs *regs)
{
	struct hit *h = &hits[nr_hits++ % ARRAY_SIZE(hits)];

	h->ip = regs->ip;
	h->value = watched[0];
	h->count = local64_read(&bp->count);
	h->type = bp->attr.bp_type;
	h->own_cpu = bp->cpu == smp_processor_id();
	h->nmi = !!in_nmi();
	h->hardirq = !!in_hardirq();
	h->irqs_off = !!irqs_disabled();
	h->context = bp->overflow_handler_context;
	if (nested)
		WRITE_ONCE(watched[0], 77); /* nobody is told */
}

/* Functions whose third instruction touches memory. */
#define TOUCH(name, insn)							\
	extern char name##_at[], name##_behind[];				\
	unsigned long name(void *p, unsigned long v);				\
	__asm__(".text; .globl " #name "; .type " #name ", @function; " #name ":"	\
		"nop; nop; nop; nop; " #name "_at: " insn "; " #name "_behind:"	\
		"nop; nop; nop; nop; nop; nop; ret; .size " #name ", . - " #name)
TOUCH(store, "movq %rsi, (%rdi)");
TOUCH(store_byte, "movb %sil, (%rdi)");
TOUCH(load, "movq (%rdi), %rax");
TOUCH(increment, "lock incq (%rdi)");
TOUCH(exchange, "xchgq %rsi, (%rdi)");
TOUCH(compare, "cmpb $0, (%rdi)");

#define AT(name) ((unsigned long)name##_at)
#define BEHIND(name) ((unsigned long)name##_behind)

/* Call a function of these, and say what was seen. */
#define TRY(name, p, v)								\
	do {									\
		nr_hits = 0;							\
		name(p, v);							\
		say(#name, (char *)(p) - (char *)watched, AT(name), BEHIND(name)); \
	} while (0)

static void say(const char *name, long offset, unsigned long at, unsigned long behind)
{
	int i;

	pr_info("watch: %s at %ld: %d\n", name, offset, nr_hits);
	for (i = 0; i < nr_hits && i < ARRAY_SIZE(hits); i++)
		pr_info("watch:   %s value %llu count %lld type %d own %d nmi %d hardirq %d irqs off %d context %ld\n",
			hits[i].ip == behind                      ? "behind" :
			hits[i].ip == at                          ? "before" :
			hits[i].ip - (at & PAGE_MASK) > PAGE_SIZE ? "elsewhere" :
								    "nearby",
			hits[i].value, hits[i].count, hits[i].type, hits[i].own_cpu, hits[i].nmi,
			hits[i].hardirq, hits[i].irqs_off, (long)hits[i].context);
}

static struct perf_event * __percpu * set(unsigned long addr, u64 len, u32 type)
{
	struct perf_event * __percpu * e;
	struct perf_event_attr attr;

	hw_breakpoint_init(&attr);
	attr.bp_addr = addr;
	attr.bp_len = len;
	attr.bp_type = type;
	e = register_wide_hw_breakpoint(&attr, note, (void *)7);
	if (!IS_ERR((void __force *)e))
		return e;
	pr_info("watch: refused, %lld bytes, type %d: %ld\n", (long long)len, type,
		PTR_ERR((void __force *)e));
	return NULL;
}

static void unset(struct perf_event * __percpu * e)
{
	if (e)
		unregister_wide_hw_breakpoint(e);
}

static void try_refused(unsigned long w)
{
	static const struct {
		u16 offset, len, type;
	} bad[] = {
		{ 1, 2, 2 }, { 2, 4, 2 },  { 4, 8, 3 },  { 0, 3, 2 }, { 0, 0, 2 },
		{ 0, 5, 2 }, { 0, 16, 2 }, { 8, 16, 2 }, { 0, 4, 1 }, { 0, 4, 0 },
		{ 0, 4, 4 }, { 0, 4, 7 },  { 0, 4, 8 },
	};
	struct perf_event * __percpu * e[5];
	struct perf_event_attr attr;
	int i;

	for (i = 0; i < ARRAY_SIZE(bad); i++)
		unset(set(w + bad[i].offset, bad[i].len, bad[i].type));
	for (i = 0; i < ARRAY_SIZE(e); i++)
		e[i] = set(w + 8 * i, 8, HW_BREAKPOINT_W);
	unset(set(w + 1, 8, HW_BREAKPOINT_W)); /* no slot comes first */
	TRY(store, &watched[1], 1);
	unset(e[1]);
	TRY(store, &watched[1], 1);
	TRY(store, &watched[2], 1);
	e[1] = set(w + 32, 8, HW_BREAKPOINT_W);
	TRY(store, &watched[4], 1);
	for (i = 0; i < 4; i++)
		unset(e[i]);
	TRY(store, &watched[0], 1);
	unset(set(0x1000, 4, HW_BREAKPOINT_W));
	unset(set(-8UL, 8, HW_BREAKPOINT_W));

	hw_breakpoint_init(&attr);
	attr.bp_addr = w;
	attr.bp_len = 8;
	attr.bp_type = HW_BREAKPOINT_W;
	pr_info("watch: no such CPU: %ld\n",
		PTR_ERR(perf_event_create_kernel_counter(&attr, nr_cpu_ids, NULL, note, NULL)));
	attr.exclude_kernel = 1;
	pr_info("watch: not in the kernel: %ld\n",
		PTR_ERR(perf_event_create_kernel_counter(&attr, 0, NULL, note, NULL)));
}

static void try_writes(unsigned long w)
{
	struct perf_event *__percpu *e = set(w, 8, HW_BREAKPOINT_W);

	TRY(store, watched, 3);
	TRY(store, watched, 3);
	TRY(load, watched, 0);
	TRY(compare, watched, 0);
	TRY(increment, watched, 0);
	TRY(exchange, watched, 9);
	nested = 1;
	TRY(store, watched, 4);
	nested = 0;
	pr_info("watch: value %llu\n", watched[0]);
	unset(e);
	TRY(store, watched, 5);
}

static void try_overlaps(unsigned long w)
{
	struct perf_event *__percpu *e = set(w + 20, 4, HW_BREAKPOINT_RW);
	char *at = (char *)watched;
	int i;

	TRY(load, at + 16, 0);
	TRY(increment, at + 16, 0);
	for (i = 18; i < 26; i++) {
		TRY(store_byte, at + i, i);
		TRY(compare, at + i, 0);
	}
	for (i = 12; i <= 24; i++)
		TRY(store, at + i, i);
	unset(e);
	for (i = 1; i <= 8; i *= 2) {
		e = set(w + 24, i, HW_BREAKPOINT_RW);
		TRY(compare, at + 23, 0);
		TRY(compare, at + 24, 0);
		TRY(compare, at + 23 + i, 0);
		TRY(compare, at + 24 + i, 0);
		unset(e);
	}
}

static void try_counts(unsigned long w)
{
	struct perf_event_attr attr;
	struct perf_event *bp;
	int i;

	hw_breakpoint_init(&attr);
	attr.bp_addr = w;
	attr.bp_len = 8;
	attr.bp_type = HW_BREAKPOINT_W;
	attr.sample_period = 3;
	attr.disabled = 1;
	bp = perf_event_create_kernel_counter(&attr, raw_smp_processor_id(), NULL, note, (void *)7);
	if (IS_ERR(bp))
		return;
	TRY(store, watched, 1);
	perf_event_enable(bp);
	for (i = 0; i < 7; i++)
		TRY(store, watched, i);
	perf_event_disable(bp);
	TRY(store, watched, 1);
	perf_event_enable(bp);
	TRY(store, watched, 1);
	TRY(store, watched, 2);
	pr_info("watch: count %lld\n", (long long)local64_read(&bp->count));
	perf_event_release_kernel(bp);
}

static int stores;
static int pre(struct kprobe *p, struct pt_regs *regs)
{
	if (stores)
		store(watched, 33);
	return 0;
}

static void post(struct kprobe *p, struct pt_regs *regs, unsigned long flags) {}

static void try_probes(unsigned long w)
{
	struct perf_event *__percpu *e = set(w, 8, HW_BREAKPOINT_W);
	struct kprobe boosted = { .addr = (void *)store_at, .pre_handler = pre };
	struct kprobe stepped = { .addr = (void *)store_at, .post_handler = post };
	struct kprobe other = { .addr = (void *)load_at, .pre_handler = pre };

	pr_info("watch: boosted %d\n", register_kprobe(&boosted));
	TRY(store, watched, 17);
	unregister_kprobe(&boosted);
	pr_info("watch: stepped %d\n", register_kprobe(&stepped));
	TRY(store, watched, 18);
	unregister_kprobe(&stepped);
	TRY(store, watched, 19);
	pr_info("watch: in a handler %d\n", register_kprobe(&other));
	stores = 1;
	nr_hits = 0;
	load(&watched[4], 0);
	say("load", 32, AT(store), BEHIND(store));
	stores = 0;
	unregister_kprobe(&other);
	pr_info("watch: missed %ld %ld %ld\n", boosted.nmissed, stepped.nmissed, other.nmissed);
	unset(e);
}

static int __init watch_init(void)
{
	unsigned long w = (unsigned long)watched;

	try_refused(w);
	try_writes(w);
	try_overlaps(w);
	try_counts(w);
	try_probes(w);
	return 0;
}

static void __exit watch_exit(void) {}
module_init(watch_init);
module_exit(watch_exit);
MODULE_LICENSE("GPL");
