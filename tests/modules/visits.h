/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Events with functions for the first user and the last, and bytes elsewhere: see visits_calls.c. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM visits-now
#undef TRACE_SYSTEM_VAR
#define TRACE_SYSTEM_VAR visits_now

#if !defined(_VISITS_H) || defined(TRACE_HEADER_MULTI_READ)
#define _VISITS_H
#include <linux/cpumask.h>
#include <linux/tracepoint.h>

#ifndef VISITS_FUNCTIONS
#define VISITS_FUNCTIONS
int visits_open(void);
void visits_close(void);
#endif

TRACE_EVENT(visit_note, TP_PROTO(const char *who, int nr, const char *fmt, va_list *args),
	    TP_ARGS(who, nr, fmt, args),
	    TP_STRUCT__entry(__field(int, nr) __vstring(note, fmt, args)
				     __string_len(initial, who, 1) __cpumask(cpus)
					     __dynamic_array(u16, steps, nr) __bitmask(bits, 70)),
	    TP_fast_assign(unsigned long bits[2] = { 0xf0f05UL, nr }; __entry->nr = nr;
			   __assign_vstr(note, fmt, args); __assign_str_len(initial, who, 1);
			   __assign_cpumask(cpus, cpumask_bits(cpumask_of(0)));
			   memset(__get_dynamic_array(steps), 0x12, 2 * nr);
			   __assign_bitmask(bits, bits, 70);),
	    TP_printk("%s %s nr=%d steps=%s bits=%s [%*pbl] [%*pb]", __get_str(initial),
		      __get_str(note), __entry->nr, __print_dynamic_array(steps, sizeof(u16)),
		      __get_bitmask(bits), 70, __get_dynamic_array(bits), 20,
		      __get_dynamic_array(bits)));

TRACE_EVENT(visit_rel, TP_PROTO(const char *who, int nr, unsigned long *mask),
	    TP_ARGS(who, nr, mask),
	    TP_STRUCT__entry(__rel_string(who, who) __field(int, nr)
				     __rel_dynamic_array(int, list, nr) __rel_bitmask(mask, 40)
					     __rel_cpumask(cpus) __rel_string_len(two, who, 2)),
	    TP_fast_assign(int i; __assign_rel_str(who, who); __entry->nr = nr;
			   for (i = 0; i < nr; i++)((int *)__get_rel_dynamic_array(list))[i] = -i;
			   __assign_rel_bitmask(mask, mask, 40);
			   __assign_rel_cpumask(cpus, cpumask_bits(cpumask_of(0)));
			   __assign_rel_str_len(two, who, 2);),
	    TP_printk("%s (%s) nr=%d %s/%u %s", __get_rel_str(who), __get_rel_str(two), __entry->nr,
		      __print_array(__get_rel_dynamic_array(list),
				    __get_rel_dynamic_array_len(list) / sizeof(int), sizeof(int)),
		      __get_rel_dynamic_array_len(list), __get_rel_bitmask(mask)));

TRACE_EVENT_FN(visit_fn, TP_PROTO(int nr), TP_ARGS(nr), TP_STRUCT__entry(__field(int, nr)),
	       TP_fast_assign(__entry->nr = nr;), TP_printk("nr=%d", __entry->nr), visits_open,
	       visits_close);
DECLARE_EVENT_CLASS(visit_class, TP_PROTO(int nr), TP_ARGS(nr), TP_STRUCT__entry(__field(int, nr)),
		    TP_fast_assign(__entry->nr = nr;), TP_printk("nr=%d", __entry->nr));
DEFINE_EVENT_FN(visit_class, visit_class_fn, TP_PROTO(int nr), TP_ARGS(nr), visits_open,
		visits_close);
DECLARE_TRACE(visit_bare, TP_PROTO(int nr, const char *who), TP_ARGS(nr, who));
#endif

#undef TRACE_INCLUDE_PATH
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_PATH .
#define TRACE_INCLUDE_FILE visits
#include <trace/define_trace.h>
