/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Data breakpoints ("watchpoints"), four on each CPU. There are none for user space. */
#pragma once
#include <linux/err.h>
#include <linux/perf_event.h>
#include <linux/string.h>

enum {
	HW_BREAKPOINT_LEN_1 = 1,
	HW_BREAKPOINT_LEN_2 = 2,
	HW_BREAKPOINT_LEN_3 = 3,
	HW_BREAKPOINT_LEN_4 = 4,
	HW_BREAKPOINT_LEN_5 = 5,
	HW_BREAKPOINT_LEN_6 = 6,
	HW_BREAKPOINT_LEN_7 = 7,
	HW_BREAKPOINT_LEN_8 = 8,
};
enum {
	HW_BREAKPOINT_EMPTY = 0,
	HW_BREAKPOINT_R = 1,
	HW_BREAKPOINT_W = 2,
	HW_BREAKPOINT_RW = HW_BREAKPOINT_R | HW_BREAKPOINT_W,
	HW_BREAKPOINT_X = 4,
	HW_BREAKPOINT_INVALID = HW_BREAKPOINT_RW | HW_BREAKPOINT_X,
};
#define HBP_NUM 4

static inline void hw_breakpoint_init(struct perf_event_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->type = PERF_TYPE_BREAKPOINT;
	attr->size = sizeof(*attr);
	attr->pinned = 1;
	attr->sample_period = 1; /* the handler is called at each access */
}

static inline unsigned long hw_breakpoint_addr(struct perf_event *bp) { return bp->attr.bp_addr; }
static inline int hw_breakpoint_type(struct perf_event *bp) { return bp->attr.bp_type; }
static inline unsigned long hw_breakpoint_len(struct perf_event *bp) { return bp->attr.bp_len; }
static inline struct arch_hw_breakpoint *counter_arch_bp(struct perf_event *bp)
{
	return &bp->hw.info;
}

struct perf_event * __percpu *
	register_wide_hw_breakpoint(struct perf_event_attr *attr, perf_overflow_handler_t triggered,
				    void *context);
void unregister_wide_hw_breakpoint(struct perf_event * __percpu * cpu_events);
void unregister_hw_breakpoint(struct perf_event *bp);

/* src/kernel/events/hw_breakpoint.c and src/arch/hw_breakpoint.c, for one another */
int register_perf_hw_breakpoint(struct perf_event *bp);
void release_bp_slot(struct perf_event *bp);
void perf_bp_event(struct perf_event *bp, void *data);
int hw_breakpoint_arch_parse(struct perf_event *bp, const struct perf_event_attr *attr,
			     struct arch_hw_breakpoint *hw);
bool arch_check_bp_in_kernelspace(struct arch_hw_breakpoint *hw);
int arch_install_hw_breakpoint(struct perf_event *bp);
void arch_uninstall_hw_breakpoint(struct perf_event *bp);
struct notifier_block;
int hw_breakpoint_exceptions_notify(struct notifier_block *unused, unsigned long val, void *data);
