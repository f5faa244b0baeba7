/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Data breakpoints are the only performance events, each bound to a CPU: what
 * linux/hw_breakpoint.h makes, or perf_event_create_kernel_counter() of that type.
 */
#pragma once
#include <asm/local64.h>
#include <asm/ptrace.h>
#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/types.h>

enum perf_type_id {
	PERF_TYPE_HARDWARE,
	PERF_TYPE_SOFTWARE,
	PERF_TYPE_TRACEPOINT,
	PERF_TYPE_HW_CACHE,
	PERF_TYPE_RAW,
	PERF_TYPE_BREAKPOINT
};

/* As user space knows it: the order of its fields and their widths are those of Linux. */
struct perf_event_attr {
	u32 type;
	u32 size;
	u64 config;
	union {
		u64 sample_period;
		u64 sample_freq;
	};
	u64 sample_type;
	u64 read_format;
	u64 disabled : 1, inherit : 1, pinned : 1, exclusive : 1, exclude_user : 1,
		exclude_kernel : 1, exclude_hv : 1, exclude_idle : 1, mmap : 1, comm : 1, freq : 1,
		inherit_stat : 1, enable_on_exec : 1, task : 1, watermark : 1, precise_ip : 2,
		mmap_data : 1, sample_id_all : 1, exclude_host : 1, exclude_guest : 1,
		exclude_callchain_kernel : 1, exclude_callchain_user : 1, mmap2 : 1, comm_exec : 1,
		use_clockid : 1, context_switch : 1, write_backward : 1, namespaces : 1,
		ksymbol : 1, bpf_event : 1, aux_output : 1, cgroup : 1, text_poke : 1, build_id : 1,
		inherit_thread : 1, remove_on_exec : 1, sigtrap : 1, __reserved_1 : 26;
	union {
		u32 wakeup_events;
		u32 wakeup_watermark;
	};
	u32 bp_type;
	union {
		u64 bp_addr;
		u64 config1;
	};
	union {
		u64 bp_len;
		u64 config2;
	};
	u64 branch_sample_type;
	u64 sample_regs_user;
	u32 sample_stack_user;
	s32 clockid;
	u64 sample_regs_intr;
	u32 aux_watermark;
	u16 sample_max_stack;
	u16 __reserved_2;
	u32 aux_sample_size;
	u32 __reserved_3;
	u64 sig_data;
};

/* x86's: asm/hw_breakpoint.h there */
struct arch_hw_breakpoint {
	unsigned long address, mask;
	u8 len, type;
};

struct hw_perf_event {
	struct arch_hw_breakpoint info;
	struct task_struct *target; /* always NULL */
	int state;
	u64 sample_period;
};

enum perf_event_state {
	PERF_EVENT_STATE_ERROR = -2,
	PERF_EVENT_STATE_OFF = -1,
	PERF_EVENT_STATE_INACTIVE = 0,
	PERF_EVENT_STATE_ACTIVE = 1,
};

struct perf_event;
struct perf_sample_data {
	u64 sample_flags;
	u64 period;
	u64 addr; /* attr.bp_addr */
	u64 ip;
};
typedef void (*perf_overflow_handler_t)(struct perf_event *, struct perf_sample_data *,
					struct pt_regs *regs);

struct perf_event {
	enum perf_event_state state;
	local64_t count;
	struct perf_event_attr attr;
	struct hw_perf_event hw;
	int oncpu, cpu;
	perf_overflow_handler_t overflow_handler;
	void *overflow_handler_context;
	u64 id;
};

struct perf_event *perf_event_create_kernel_counter(struct perf_event_attr *attr, int cpu,
						    struct task_struct *task,
						    perf_overflow_handler_t callback,
						    void *context);
int perf_event_release_kernel(struct perf_event *event);
void perf_event_enable(struct perf_event *event);
void perf_event_disable(struct perf_event *event);
void perf_swevent_event(struct perf_event *event, u64 nr, struct perf_sample_data *data,
			struct pt_regs *regs);
#define is_sampling_event(event) ((event)->attr.sample_period != 0)
