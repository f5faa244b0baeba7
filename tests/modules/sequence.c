// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Probes of functions of its own, which come and go as words in its parameter `do` say, for random
 * sequences that a Linux kernel and the guest kernel run alike (tests/programs/sequences.py). It
 * uses nothing but Linux's interface.
 *
 * There are GROUPS groups of three functions: plain<g> is code that can become a jump nearly anywhere,
 * odd<g> has instructions that cannot be moved, and traced<g> begins with a place of ftrace,
 * so that events may be there.
 */
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>

#define GROUPS 20
#define PROBES 6 /* of a group; those from KPROBES on are return probes */
#define KPROBES 4
#define JUMP 0xe9
#define BYTES 24 /* of a function whose code is given here */
#define EACH(X)                                                                                    \
	X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9)                                              \
	X(10) X(11) X(12) X(13) X(14) X(15) X(16) X(17) X(18) X(19)

#define GIVEN(name, code)                                                                          \
	asm(".pushsection .text\n.balign 16\n.globl " name "\n.type " name ", @function\n" name ":\n"   \
	    ".byte " code "\n.size " name ", . - " name "\n.popsection");

/* nop; push %rbx; mov %edi,%ebx; lea 1(%rbx),%eax; pop %rbx; nop, of 1 and of 3 bytes; ret */
#define PLAIN(g)                                                                                   \
	GIVEN("plain" #g, "0x90, 0x53, 0x89, 0xfb, 0x8d, 0x43, 1, 0x5b, 0x90, 0x90, 0x90, 0x90,"       \
			  "0x0f, 0x1f, 0, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0xc3, 0xcc")
/* push %rbp; mov %edi,%eax; nop of 4; not %eax, twice; test %edi,%edi; je to pop; pushf; popf;
 * a nop with %cs; jmp to the next; pop %rbp; ret */
#define ODD(g)                                                                                     \
	GIVEN("odd" #g, "0x55, 0x89, 0xf8, 0x0f, 0x1f, 0x40, 0, 0xf7, 0xd0, 0xf7, 0xd0, 0x85, 0xff,"   \
			"0x74, 6, 0x9c, 0x9d, 0x2e, 0x90, 0xeb, 0, 0x5d, 0xc3, 0xcc")
/* The place of ftrace; then nop; push %rbx; mov %edi,%ebx; lea 1(%rbx),%eax; pop %rbx; nops; ret */
#define TRACED(g)                                                                                  \
	extern int plain##g(int), odd##g(int);                                                         \
	__attribute__((naked)) noinline int traced##g(int x);                                          \
	__attribute__((naked)) noinline int traced##g(int x)                                           \
	{                                                                                              \
		asm(".byte 0x90, 0x53, 0x89, 0xfb, 0x8d, 0x43, 1, 0x5b, 0x66, 0x90, 0x90, 0x90, 0x90,"      \
		    "0x90, 0x90, 0x90, 0x90, 0xc3, 0xcc");                                                 \
	}
/* nops and ret */
GIVEN("canary", "0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0xc3")
extern int canary(void);

#define ROW(g) { plain##g, odd##g, traced##g },

EACH(PLAIN);
EACH(ODD);
EACH(TRACED);

static int (*const functions[GROUPS][3])(int) = { EACH(ROW) };
static u8 text[GROUPS][3][BYTES]; /* as it was loaded */

static struct group {
	struct kprobe kps[KPROBES];
	struct kretprobe rps[PROBES - KPROBES];
	unsigned int hits[PROBES], posts[PROBES], wrong;
	bool used[PROBES];
} groups[GROUPS];
static char said[4000];
static ktime_t began;
static size_t length;

static struct group *group_of(void *p)
{
	return &groups[((char *)p - (char *)groups) / sizeof(*groups)];
}

static int pre(struct kprobe *p, struct pt_regs *regs)
{
	struct group *g = group_of(p);

	g->hits[p - g->kps]++;
	return 0;
}

static void post(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	struct group *g = group_of(p);

	g->posts[p - g->kps]++;
}

static int entered(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct kretprobe *rp = get_kretprobe(ri);
	struct group *g = group_of(rp);

	g->posts[KPROBES + (rp - g->rps)]++;
	return 0;
}

static int returned(struct kretprobe_instance *ri, struct pt_regs *regs)
{
	struct kretprobe *rp = get_kretprobe(ri);
	struct group *g = group_of(rp);

	g->hits[KPROBES + (rp - g->rps)]++;
	return 0;
}

static struct kprobe *kprobe_of(struct group *g, int i)
{
	return i < KPROBES ? &g->kps[i] : &g->rps[i - KPROBES].kp;
}

/* Make a probe ready to be registered, unless it is: then it is to be refused as it is. */
static void prepare(struct group *g, int i, char function, int offset, int how)
{
	int (*at)(int) = functions[g - groups][function == 'p' ? 0 : function == 'o' ? 1 : 2];
	struct kprobe *p = kprobe_of(g, i);

	if (g->used[i])
		return;
	memset(p, 0, sizeof(*p));
	p->addr = (kprobe_opcode_t *)at + offset;
	p->flags = how & 1 ? KPROBE_FLAG_DISABLED : 0;
	if (i < KPROBES) {
		p->pre_handler = how & 2 ? NULL : pre;
		p->post_handler = how & 4 ? post : NULL;
		return;
	}
	memset(&g->rps[i - KPROBES], 0, sizeof(g->rps[0]));
	p->addr = (kprobe_opcode_t *)at + offset;
	p->flags = how & 1 ? KPROBE_FLAG_DISABLED : 0;
	g->rps[i - KPROBES].handler = returned;
	g->rps[i - KPROBES].entry_handler = how & 2 ? entered : NULL;
}

static int add(struct group *g, int i)
{
	int err = i < KPROBES ? register_kprobe(&g->kps[i]) :
				register_kretprobe(&g->rps[i - KPROBES]);

	if (!err)
		g->used[i] = true;
	return err;
}

static void remove(struct group *g, int i)
{
	if (i < KPROBES)
		unregister_kprobe(&g->kps[i]);
	else
		unregister_kretprobe(&g->rps[i - KPROBES]);
	g->used[i] = false;
}

/* Those of `which` that are kprobes, in this order. */
static int several(struct group *g, const char *which, struct kprobe **kps)
{
	int n = 0;

	for (; *which >= '0' && *which < '0' + KPROBES; which++)
		kps[n++] = &g->kps[*which - '0'];
	return n;
}

static int add_several(struct group *g, const char *which)
{
	struct kprobe *kps[KPROBES];
	int i, n = several(g, which, kps), err = register_kprobes(kps, n);

	for (i = 0; i < n && !err; i++)
		g->used[kps[i] - g->kps] = true;
	return err;
}

static void remove_several(struct group *g, const char *which)
{
	struct kprobe *kps[KPROBES];
	int i, n = several(g, which, kps);

	unregister_kprobes(kps, n);
	for (i = 0; i < n; i++)
		g->used[kps[i] - g->kps] = false;
}

/* As if nothing had ever been done to it. */
static void forget(struct group *g)
{
	int i;

	for (i = 0; i < PROBES; i++)
		if (g->used[i])
			remove(g, i);
	memset(g, 0, sizeof(*g));
}

static void hit(struct group *g, int rounds)
{
	int i, f;

	for (i = 0; i < rounds; i++)
		for (f = 0; f < 3; f++)
			g->wrong += functions[g - groups][f](i) != i + (f != 1);
}

static int number(const char **at)
{
	int n = 0;

	for (*at += **at == ','; **at >= '0' && **at <= '9'; ++*at)
		n = 10 * n + **at - '0';
	return n;
}

/* One word: what to do, group, probe or probes, and for a new one function, offset and how. */
static int one(const char *word)
{
	const char *at = word + 1, *which;
	int n = number(&at), i;
	struct group *g = &groups[n];

	if (n >= GROUPS || *at != ',')
		return -E2BIG;
	which = at + 1;
	i = number(&at) % PROBES;
	switch (word[0]) {
	case 'p':
		if (*at == ',') {
			char function = at[1];
			int offset;

			at += 2;
			offset = number(&at);
			prepare(g, i, function, offset, number(&at));
		}
		return 0;
	case 'r': return add(g, i);
	case 'u':
		if (i < KPROBES ||
		    g->used[i]) /* Linux 6.1 oopses at a return probe that is not registered */
			remove(g, i);
		return 0;
	case 'R': return add_several(g, which);
	case 'U': return remove_several(g, which), 0;
	case 'd': return disable_kprobe(kprobe_of(g, i));
	case 'e': return enable_kprobe(kprobe_of(g, i));
	case 'h': return hit(g, i), 0;
	case 'z': return forget(g), 0;
	case 'q': return ktime_get() - began > 15 * NSEC_PER_MSEC; /* is it late? */
	}
	return -E2BIG;
}

static int set(const char *words, const struct kernel_param *kp)
{
	char *copy = kstrdup(words, GFP_KERNEL), *rest = copy, *word;

	if (!copy)
		return -ENOMEM;
	began = ktime_get();
	while ((word = strsep(&rest, " \n")))
		if (*word) {
			int err = one(word);

			length += scnprintf(said + length, sizeof(said) - length, "%s=%d\n", word,
					    err);
		}
	kfree(copy);
	return 0;
}

/* What came of the words since the last time. */
static int get(char *buffer, const struct kernel_param *kp)
{
	size_t n = length;

	memcpy(buffer, said, n);
	length = 0;
	return n;
}

static const struct kernel_param_ops do_ops = { .set = set, .get = get };
module_param_cb(do, &do_ops, NULL, 0600);

/* Hits, post_handlers and misses of each probe, and its flags. */
static int get_counts(char *buffer, const struct kernel_param *kp)
{
	size_t n = 0;
	int i, k;

	for (i = 0; i < GROUPS; i++) {
		struct group *g = &groups[i];

		n += scnprintf(buffer + n, 4000 - n, "g%d %d", i, g->wrong);
		for (k = 0; k < PROBES; k++)
			if (g->used[k])
				n += scnprintf(buffer + n, 4000 - n, " %d:%d,%d,%ld,%x", k,
					       g->hits[k], g->posts[k],
					       k < KPROBES ? g->kps[k].nmissed :
							     (long)g->rps[k - KPROBES].nmissed,
					       kprobe_of(g, k)->flags);
		n += scnprintf(buffer + n, 4000 - n, "\n");
	}
	return n;
}

static const struct kernel_param_ops counts_ops = { .get = get_counts };
module_param_cb(counts, &counts_ops, NULL, 0400);

/* The bytes of the text that are others than they were. */
static int get_text(char *buffer, const struct kernel_param *kp)
{
	static const char names[] = "pot";
	size_t n = 0;
	int i, f, at;

	for (i = 0; i < GROUPS; i++) {
		n += scnprintf(buffer + n, 4000 - n, "g%d", i);
		for (f = 0; f < 3; f++) {
			const u8 *now = (const u8 *)functions[i][f];

			for (at = 0; at < BYTES; at++)
				if (now[at] != text[i][f][at])
					n += scnprintf(buffer + n, 4000 - n, " %c%d:%02x", names[f],
						       at, now[at]);
		}
		n += scnprintf(buffer + n, 4000 - n, "\n");
	}
	return n;
}

static const struct kernel_param_ops text_ops = { .get = get_text };
module_param_cb(text, &text_ops, NULL, 0400);

static struct kprobe last;

/*
 * The optimizer has done all that it was asked for when a probe that is asked for last has become a
 * jump, and is none any more: 1 registers that, 0 disables it, - takes it away.
 */
static int set_last(const char *words, const struct kernel_param *kp)
{
	switch (words[0]) {
	case '1':
		memset(&last, 0, sizeof(last));
		last.addr = (kprobe_opcode_t *)canary;
		return register_kprobe(&last);
	case '0': return disable_kprobe(&last);
	}
	unregister_kprobe(&last);
	return 0;
}

/* Whether the last probe is a jump. */
static int get_last(char *buffer, const struct kernel_param *kp)
{
	return scnprintf(buffer, 4, "%d\n", *(volatile u8 *)canary == JUMP);
}

static const struct kernel_param_ops last_ops = { .set = set_last, .get = get_last };
module_param_cb(last, &last_ops, NULL, 0600);

static int __init start(void)
{
	int i, f;

	for (i = 0; i < GROUPS; i++)
		for (f = 0; f < 3; f++)
			memcpy(text[i][f], functions[i][f], BYTES);
	return 0;
}

static void __exit end(void)
{
	int i;

	for (i = 0; i < GROUPS; i++)
		forget(&groups[i]);
}

module_init(start);
module_exit(end);
MODULE_LICENSE("GPL");
