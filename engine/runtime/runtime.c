// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What runs at a hit: the handlers of the probed address, called from the stubs of entry.S, and
 * those of a function's return.
 */
#include "runtime.h"

/* Handlers as modules have them. The first argument is a struct kprobe * or kp_handler *. */
typedef int handler_fn(u64, struct pt_regs *);
typedef void post_fn(u64, struct pt_regs *, u64 flags);
typedef int node_fn(struct kp_rethook_node *, struct pt_regs *);
typedef int fault_fn(u64, struct pt_regs *, int trapnr);

struct kp_config kp_config;

#ifdef KP_GLOBAL_LOCK
/*
 * The one lock that kprobes once held from the trap to the end of the handlers, until RCU and a
 * state for each CPU took its place. bench/smp.py compiles it in; nothing else does.
 */
static u32 kprobe_lock;

__attribute__((noinline)) void lock_kprobes(void)
{
	while (__atomic_exchange_n(&kprobe_lock, 1, __ATOMIC_ACQUIRE))
		__builtin_ia32_pause();
}

__attribute__((noinline)) void unlock_kprobes(void)
{
	__atomic_store_n(&kprobe_lock, 0, __ATOMIC_RELEASE);
}
#else
static inline void lock_kprobes(void) {}
static inline void unlock_kprobes(void) {}
#endif

static void reset_current(struct kp_cpu *c)
{
	c->current_kprobe = 0;
	c->status = KP_IDLE;
}

static void missed(struct kp_handler *h)
{
	h->nmissed++;
	if (h->kp)
		++*(u64 *)(h->kp + KPROBE_NMISSED);
}

/*
 * Count a hit as missed, as this CPU handles another probe: the probed instruction is run, but no
 * handler.
 */
static u64 reenter(struct kp_cpu *c, struct kp_site *site, u64 kind)
{
	struct kp_handler *h;

	for (h = (struct kp_handler *)site->first; h; h = (struct kp_handler *)h->next)
		missed(h);
	if (kind == KP_INT3 && site->flags & SITE_SINGLESTEP) {
		c->prev_kprobe = c->current_kprobe;
		c->prev_status = c->status;
		c->current_kprobe = (u64)site;
		c->status = KP_REENTER;
	}
	return site->cont;
}

static void run_post_handlers(struct kp_cpu *c, struct kp_site *site, struct pt_regs *regs)
{
	struct kp_handler *h;

	c->status = KP_HIT_SSDONE;
	for (h = (struct kp_handler *)site->first; h; h = (struct kp_handler *)h->next) {
		if (!h->post_fn || h->flags & HANDLER_DISABLED)
			continue;
		c->instance = (u64)h;
		((post_fn *)h->post_fn)(h->user, regs, 0);
	}
}

/* Go on to the probed instruction, as all pre_handlers have run. Return where that is. */
static inline __attribute__((always_inline)) u64 finish(struct kp_cpu *c, struct kp_site *site,
							struct pt_regs *regs, u64 kind, u32 context)
{
	/* read now: a handler may have been the one to change it */
	u64 cont = site->cont;

	if (kind == KP_FTRACE) {
		regs->ip = cont;
		if (site->flags & SITE_POST)
			run_post_handlers(c, site, regs);
	} else if (kind == KP_OPT) {
		regs->sp = (u64)(regs + 1);
	} else if (site->flags & SITE_SINGLESTEP) {
		c->status = KP_HIT_SS;
		kp_preempt_add(-context);
		if (!(site->flags & SITE_POST))
			unlock_kprobes();
		return cont;
	}
	reset_current(c);
	kp_preempt_add(-context);
	unlock_kprobes();
	return cont;
}

/*
 * Run the entry function of a jprobe as if it had been called. Word by word, for an emulator takes
 * a while for "rep movs".
 */
static inline __attribute__((always_inline)) void setjmp(struct kp_cpu *c, struct kp_handler *h,
							 struct pt_regs *regs)
{
	struct kp_jprobe *j = (struct kp_jprobe *)c->jprobe;
	u64 room = KP_THREAD_SIZE - (regs->sp & (KP_THREAD_SIZE - 1));
	u64 *to = (u64 *)&j->regs, *from = (u64 *)regs, i;

	/* orig_ax, cs and ss are always the same */
#pragma GCC unroll 15
	for (i = 0; i < __builtin_offsetof(struct pt_regs, orig_ax) / 8; i++)
		to[i] = from[i];
	j->regs.flags = regs->flags;
	j->regs.sp = regs->sp;
	j->size = room < KP_MAX_STACK_SIZE ? room : KP_MAX_STACK_SIZE;
	to = j->stack;
	from = (u64 *)regs->sp;
	if (j->size == KP_MAX_STACK_SIZE) {
#pragma GCC unroll 8
		for (i = 0; i < KP_MAX_STACK_SIZE / 8; i++)
			to[i] = from[i];
	} else {
		for (i = 0; i < j->size / 8; i++)
			to[i] = from[i];
	}
	regs->flags &= ~FLAGS_IF;
	regs->ip = h->data;
}

/* Stand for the fn of a jprobe's handler; run_handlers() and jprobe.S do its work themselves. */
int kp_setjmp_pre(struct kp_handler *h, struct pt_regs *regs)
{
	return 0;
}

/*
 * Run the handlers of a site, the newest first. Return the address to go on at if a handler has
 * set one, else 0.
 */
static inline __attribute__((always_inline)) u64
run_handlers(struct kp_cpu *c, struct kp_site *site, struct pt_regs *regs, u64 kind, u32 context)
{
	struct kp_handler *h;

	for (h = (struct kp_handler *)site->first; h; h = (struct kp_handler *)h->next) {
		if (!h->fn || h->flags & HANDLER_DISABLED)
			continue;
		c->instance = (u64)h;
		if (h->fn == (u64)kp_setjmp_pre) {
			/* the probe is being handled until jprobe_return() */
			setjmp(c, h, regs);
			kp_preempt_add(1 - context);
			return regs->ip;
		}
		if (!((handler_fn *)h->fn)(h->arg, regs) || kind == KP_OPT)
			continue;
		reset_current(c);
		kp_preempt_add(-context);
		unlock_kprobes();
		return regs->ip;
	}
	return 0;
}

/*
 * The functions from here to exc_int3() have the names that a stack trace made by a handler
 * shows on Linux, and call one another as they do there.
 */
#define ON_STACK __attribute__((noinline, __optimize__("no-tree-loop-distribute-patterns")))
/* A call that the compiler does not make a jump: the caller is to be seen on the stack. */
#define CALL(x) ({ u64 v_ = (x); asm volatile("" : "+r"(v_)); v_; })

ON_STACK u64 aggr_pre_handler(struct kp_site *site, struct pt_regs *regs)
{
	struct kp_cpu *c = kp_this_cpu();

	return run_handlers(c, site, regs, c->kind, c->kind == KP_INT3 ? NMI_CONTEXT : 1);
}

ON_STACK u64 opt_pre_handler(struct kp_site *site, struct pt_regs *regs)
{
	return run_handlers(kp_this_cpu(), site, regs, KP_OPT, 1);
}

static inline __attribute__((always_inline)) u64 enter(struct kp_site *site, struct pt_regs *regs,
						       u64 kind)
{
	struct kp_cpu *c = kp_this_cpu();
	u32 context = kind == KP_INT3 ? NMI_CONTEXT : 1;
	u64 cont;

	site->hits++;
	if (c->current_kprobe)
		return reenter(c, site, kind);
	lock_kprobes();
	c->current_kprobe = (u64)site;
	c->status = KP_HIT_ACTIVE;
	c->kind = kind;
	c->regs = (u64)regs;
	regs->ip = site->addr + 1;
	kp_preempt_add(context);
	if (kind == KP_OPT)
		cont = opt_pre_handler(site, regs);
	else if (site->flags & SITE_AGGR)
		cont = aggr_pre_handler(site, regs);
	else
		cont = run_handlers(c, site, regs, kind, context);
	return cont ? cont : finish(c, site, regs, kind, context);
}

ON_STACK u64 kprobe_ftrace_handler(struct kp_site *site, struct pt_regs *regs)
{
	return enter(site, regs, KP_FTRACE);
}

ON_STACK u64 optimized_callback(struct kp_site *site, struct pt_regs *regs)
{
	return enter(site, regs, KP_OPT);
}

ON_STACK u64 kprobe_int3_handler(struct kp_site *site, struct pt_regs *regs)
{
	return enter(site, regs, KP_INT3);
}

ON_STACK u64 exc_int3(struct kp_site *site, struct pt_regs *regs)
{
	return CALL(kprobe_int3_handler(site, regs));
}

/* Run the post_handlers: the probed instruction has been stepped and its registers put right. */
u64 kp_post(struct pt_regs *regs)
{
	struct kp_cpu *c = kp_this_cpu();

	regs->ip = c->mail[2];
	kp_preempt_add(NMI_CONTEXT);
	run_post_handlers(c, (struct kp_site *)c->current_kprobe, regs);
	reset_current(c);
	kp_preempt_add(-NMI_CONTEXT);
	unlock_kprobes();
	return regs->ip;
}

/* ---- traps in handlers and in copied instructions */

/* Handle a breakpoint in a handler; mail[2] is the ip behind it. */
u64 kp_break(struct pt_regs *regs)
{
	struct kp_cpu *c = kp_this_cpu();
	struct kp_handler *h = (struct kp_handler *)c->instance;
	u64 ip = c->mail[2];

	regs->ip = ip;
	kp_preempt_add(NMI_CONTEXT);
	if (((handler_fn *)h->break_fn)(h->user, regs)) {
		/* the handlers that were running do not come back */
		kp_preempt_add(c->kind == KP_INT3 ? -NMI_CONTEXT : -1);
		return finish(c, (struct kp_site *)c->current_kprobe, regs, c->kind, NMI_CONTEXT);
	}
	kp_preempt_add(-NMI_CONTEXT);
	c->declined = ip - 1;
	return ip - 1;
}

/*
 * Handle a fault of a handler, whose struct kp_handler is mail[0], or of a copied instruction, the
 * struct kp_site of whose probe is mail[1]. mail[2] is the ip to show, mail[3] the place where it
 * happened.
 */
u64 kp_fault(struct pt_regs *regs)
{
	struct kp_cpu *c = kp_this_cpu();
	struct kp_handler *h = (struct kp_handler *)c->mail[0];
	u64 one = (u64)h, trapnr = c->mail_ret, again = c->mail[3];

	if (!h)
		h = (struct kp_handler *)((struct kp_site *)c->mail[1])->first;
	regs->ip = c->mail[2];
	c->in_fault = 1;
	for (; h; h = one ? 0 : (struct kp_handler *)h->next) {
		if (!h->fault_fn || (h->flags & HANDLER_DISABLED && !one))
			continue;
		if (((fault_fn *)h->fault_fn)(h->user, regs, trapnr)) {
			c->in_fault = 0;
			return regs->ip;
		}
	}
	c->in_fault = 0;
	c->declined = again;
	return again;
}

/* ---- jprobes */

struct kp_resume {
	u64 cont;
	struct kp_jprobe *jprobe;
};

/*
 * Undo what the entry function of a jprobe did, as it has called jprobe_return(), and go on with
 * the probed function. Its flags and where to go on are left below its stack pointer. The jprobe
 * is the last of the handlers, so none is left out. cont is 0 if no entry function is running.
 */
struct kp_resume kp_longjmp(void)
{
	struct kp_cpu *c = kp_this_cpu();
	struct kp_resume r = { 0, (struct kp_jprobe *)c->jprobe };
	u64 i, *sp = (u64 *)r.jprobe->regs.sp;

	if (!c->current_kprobe || !r.jprobe->size)
		return r;
	for (i = 0; i < r.jprobe->size / 8; i++)
		sp[i] = r.jprobe->stack[i];
	r.jprobe->size = 0;
	kp_preempt_add(NMI_CONTEXT - 1);
	r.cont = finish(c, (struct kp_site *)c->current_kprobe, &r.jprobe->regs, c->kind,
			NMI_CONTEXT);
	sp[-1] = r.cont;
	sp[-2] = r.jprobe->regs.flags;
	return r;
}

/* Decline a breakpoint in a jprobe: that of jprobe_return() does not come here. */
int kp_longjmp_break(struct kp_handler *h, struct pt_regs *regs)
{
	return 0;
}

/* ---- handlers that are not guest code */

int kp_py_handler(struct kp_handler *h, struct pt_regs *regs)
{
	return kp_ask(HC_PY_HANDLER, (u64)h, (u64)regs);
}

int kp_py_break(struct kp_handler *h, struct pt_regs *regs)
{
	return kp_ask(HC_PY_BREAK, (u64)h, (u64)regs);
}

void kp_py_post(struct kp_handler *h, struct pt_regs *regs)
{
	kp_ask(HC_PY_POST, (u64)h, (u64)regs);
}

int kp_py_entry(struct kp_rethook_node *node, struct pt_regs *regs)
{
	return kp_ask(HC_PY_ENTRY, (u64)node, (u64)regs, node->rethook);
}

int kp_py_return(struct kp_rethook_node *node, struct pt_regs *regs)
{
	kp_ask(HC_PY_RETURN, (u64)node, (u64)regs, node->rethook);
	return 0;
}

/* ---- return probes */

static void recycle(struct kp_rethook_node *node)
{
	struct kp_rethook *rh = (struct kp_rethook *)node->rethook;

	node->next = rh->free;
	rh->free = (u64)node;
}

/* Have the call whose return address is at sp return to the trampoline. */
static inline void hook(struct kp_rethook *rh, struct kp_rethook_node *node, u64 *sp, u64 site)
{
	u64 *list = kp_task_rethooks(node->task);

	node->frame = (u64)sp;
	node->ret_addr = *sp;
	*sp = (u64)arch_rethook_trampoline;
	rh->site = site;
	node->next = *list;
	*list = (u64)node;
}

static inline struct kp_rethook_node *take(struct kp_rethook *rh, u64 func)
{
	struct kp_rethook_node *node = (struct kp_rethook_node *)rh->free;

	rh->free = node->next;
	node->task = kp_current();
	node->func = func;
	node->ret_addr = 0;
	return node;
}

/* Hook the return of a function, as the pre_handler at its entry. */
int kp_kret_entry(struct kp_handler *h, struct pt_regs *regs)
{
	struct kp_rethook *rh = (struct kp_rethook *)h->data;
	struct kp_rethook_node *node;

	if (rh->flags & RETHOOK_DISABLED || !rh->free) {
		rh->nmissed++;
		if (rh->kp)
			++*(u32 *)(rh->kp + KRETPROBE_NMISSED);
		return 0;
	}
	node = take(rh, regs->ip - 1);
	if (rh->entry_fn && ((node_fn *)rh->entry_fn)(node, regs)) {
		recycle(node);
		return 0;
	}
	hook(rh, node, (u64 *)regs->sp, kp_this_cpu()->current_kprobe);
	return 0;
}

/*
 * Hook the return probes of a site, whose last handler is a jprobe's, and return that handler.
 * Return 0, with nothing done, if one of them wants to know the registers or has no free node.
 */
u64 kp_krets(struct kp_site *site, u64 *sp)
{
	struct kp_handler *h;

	for (h = (struct kp_handler *)site->first; h->next; h = (struct kp_handler *)h->next) {
		struct kp_rethook *rh = (struct kp_rethook *)h->data;

		if (rh->long_way || !rh->free)
			return 0;
	}
	for (h = (struct kp_handler *)site->first; h->next; h = (struct kp_handler *)h->next) {
		struct kp_rethook *rh = (struct kp_rethook *)h->data;

		hook(rh, take(rh, site->addr), sp, (u64)site);
	}
	return (u64)h;
}

/* Return the handler at the entry, which counts as the one that runs at the return, too. */
static u64 entry_handler(struct kp_rethook *rh)
{
	struct kp_handler *h = (struct kp_handler *)((struct kp_site *)rh->site)->first;

	while (h && h->data != (u64)rh)
		h = (struct kp_handler *)h->next;
	return (u64)h;
}

ON_STACK void kretprobe_rethook_handler(struct kp_rethook_node *node, struct pt_regs *regs)
{
	struct kp_rethook *rh = (struct kp_rethook *)node->rethook;
	struct kp_cpu *c = kp_this_cpu();

	if (!rh->ret_fn || rh->flags & RETHOOK_DISABLED)
		return;
	c->current_kprobe = rh->site;
	c->instance = entry_handler(rh);
	c->status = KP_HIT_ACTIVE;
	((node_fn *)rh->ret_fn)(node, regs);
	reset_current(c);
}

/*
 * The nodes of one call stand together on the task's list, newest first: all but the
 * last of them have the trampoline for a return address.
 */
ON_STACK u64 rethook_trampoline_handler(struct pt_regs *regs)
{
	u64 *list = kp_task_rethooks(kp_current());
	struct kp_rethook_node *last, *node, *next;
	struct kp_cpu *c = kp_this_cpu();
	u64 frame = (u64)(regs + 1), ret;

	for (last = (struct kp_rethook_node *)*list; last;
	     last = (struct kp_rethook_node *)last->next)
		if (last->ret_addr != (u64)arch_rethook_trampoline)
			break;
	if (!last) {
		c->orphan_returns++;
		kp_ask(HC_ORPHAN, (u64)regs);
		__builtin_trap();
	}
	ret = last->ret_addr;
	regs->ip = ret;
	kp_preempt_add(1);
	for (node = (struct kp_rethook_node *)*list;; node = (struct kp_rethook_node *)node->next) {
		if (node->frame != frame)
			break;
		kretprobe_rethook_handler(node, regs);
		if (node == last)
			break;
	}
	*(u64 *)frame = ret;
	node = (struct kp_rethook_node *)*list;
	*list = last->next;
	for (;; node = next) {
		next = (struct kp_rethook_node *)node->next;
		recycle(node);
		if (node == last)
			break;
	}
	kp_preempt_add(-1);
	return ret;
}

u64 arch_rethook_trampoline_callback(struct pt_regs *regs)
{
	return CALL(rethook_trampoline_handler(regs));
}
