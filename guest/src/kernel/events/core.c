// SPDX-License-Identifier: GPL-2.0-or-later
/* Performance events, as far as data breakpoints need them. */
#include <linux/hw_breakpoint.h>
#include <linux/kprobes.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>

static DEFINE_MUTEX(ctx_mutex); /* held for whatever changes a CPU's events */
static atomic64_t perf_event_id;

/* Call the owner's function, in the context of the trap. */
static noinline int __perf_event_overflow(struct perf_event *event, struct perf_sample_data *data,
					  struct pt_regs *regs)
{
	perf_overflow_handler_t handler = READ_ONCE(event->overflow_handler);

	if (handler)
		handler(event, data, regs);
	barrier();
	return 0;
}
NOKPROBE_SYMBOL(__perf_event_overflow);

noinline void perf_swevent_event(struct perf_event *event, u64 nr, struct perf_sample_data *data,
				 struct pt_regs *regs)
{
	struct hw_perf_event *hwc = &event->hw;
	u64 count = local64_add_return(nr, &event->count);

	if (!is_sampling_event(event) || count % hwc->sample_period)
		return;
	data->period = hwc->sample_period;
	__perf_event_overflow(event, data, regs);
	barrier();
}
NOKPROBE_SYMBOL(perf_swevent_event);

static noinline int event_sched_in(struct perf_event *event)
{
	int err = arch_install_hw_breakpoint(event);

	event->state = err ? PERF_EVENT_STATE_ERROR : PERF_EVENT_STATE_ACTIVE;
	event->oncpu = err ? -1 : event->cpu;
	return err;
}

static noinline void event_sched_out(struct perf_event *event, enum perf_event_state state)
{
	if (event->state == PERF_EVENT_STATE_ACTIVE)
		arch_uninstall_hw_breakpoint(event);
	event->state = state;
	event->oncpu = -1;
}

noinline void perf_event_enable(struct perf_event *event)
{
	guard(mutex)(&ctx_mutex);
	if (event->state < PERF_EVENT_STATE_INACTIVE)
		event_sched_in(event);
}

noinline void perf_event_disable(struct perf_event *event)
{
	guard(mutex)(&ctx_mutex);
	event_sched_out(event, PERF_EVENT_STATE_OFF);
}

static noinline struct perf_event *perf_event_alloc(struct perf_event_attr *attr, int cpu,
						    perf_overflow_handler_t handler, void *context)
{
	struct perf_event *event;
	int err;

	if ((unsigned int)cpu >= nr_cpu_ids)
		return ERR_PTR(-EINVAL);
	if (attr->type != PERF_TYPE_BREAKPOINT)
		return ERR_PTR(-ENOENT);
	event = kzalloc(sizeof(*event), GFP_KERNEL);
	if (!event)
		return ERR_PTR(-ENOMEM);
	event->attr = *attr;
	event->cpu = cpu;
	event->oncpu = -1;
	event->state = PERF_EVENT_STATE_OFF;
	event->id = atomic64_inc_return(&perf_event_id);
	event->overflow_handler = handler;
	event->overflow_handler_context = context;
	event->hw.sample_period = attr->sample_period;
	err = register_perf_hw_breakpoint(event);
	if (err) {
		kfree(event);
		return ERR_PTR(err);
	}
	return event;
}

struct perf_event *perf_event_create_kernel_counter(struct perf_event_attr *attr, int cpu,
						    struct task_struct *task,
						    perf_overflow_handler_t callback, void *context)
{
	struct perf_event *event;

	if (task)
		return ERR_PTR(-EOPNOTSUPP);
	event = perf_event_alloc(attr, cpu, callback, context);
	if (IS_ERR(event) || attr->disabled)
		return event;
	perf_event_enable(event);
	if (event->state == PERF_EVENT_STATE_ERROR) {
		perf_event_release_kernel(event);
		return ERR_PTR(-ENOMEM);
	}
	return event;
}

/* Release an event; no handler of it runs any more when this returns. */
noinline int perf_event_release_kernel(struct perf_event *event)
{
	perf_event_disable(event);
	release_bp_slot(event);
	synchronize_rcu();
	kfree(event);
	return 0;
}
