// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Running the handlers of probes: of several probes linked by their lists, and of the
 * one at a function's entry.
 *
 * Nothing calls these. The engine and its own code in engine/runtime do this work; here
 * are the functions that have it on Linux, which scripts look for in the blacklist and
 * find refused. They do what they say if they are called.
 */
#include <linux/kprobes.h>
#include <linux/list.h>

struct kprobe *get_kprobe(void *addr);

int aggr_pre_handler(struct kprobe *p, struct pt_regs *regs)
{
	struct kprobe *kp;

	list_for_each_entry(kp, &p->list, list)
		if (kp->pre_handler && !kprobe_disabled(kp) && kp->pre_handler(kp, regs))
			return 1;
	return 0;
}
NOKPROBE_SYMBOL(aggr_pre_handler);

void aggr_post_handler(struct kprobe *p, struct pt_regs *regs, unsigned long flags)
{
	struct kprobe *kp;

	list_for_each_entry(kp, &p->list, list)
		if (kp->post_handler && !kprobe_disabled(kp))
			kp->post_handler(kp, regs, flags);
}
NOKPROBE_SYMBOL(aggr_post_handler);

void kprobe_ftrace_handler(unsigned long ip, unsigned long parent_ip, void *ops,
			   struct pt_regs *regs)
{
	struct kprobe *p = get_kprobe((void *)ip);
	unsigned long orig_ip = regs->ip;

	if (!p || kprobe_disabled(p))
		return;
	regs->ip = ip + 1;
	if (!p->pre_handler || !p->pre_handler(p, regs)) {
		regs->ip = ip + 5;
		if (p->post_handler)
			p->post_handler(p, regs, 0);
		regs->ip = orig_ip;
	}
}
NOKPROBE_SYMBOL(kprobe_ftrace_handler);
