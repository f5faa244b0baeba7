/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Defines events of a module's own at trace points that others have, as trace/define_trace.h defines
 * those with trace points of their own. Such an event has a trace point of its own for its name,
 * whose first user makes the event's function one of the others' trace point, which the module has
 * handed to trace_custom_event_NAME_update().
 */
#ifdef CREATE_CUSTOM_TRACE_EVENTS
#undef CREATE_CUSTOM_TRACE_EVENTS
#undef TRACE_SYSTEM
#define TRACE_SYSTEM custom
#undef TRACE_CUSTOM_EVENT
#define TRACE_CUSTOM_EVENT(name, proto, args, tstruct, assign, print) \
	DECLARE_CUSTOM_EVENT_CLASS(name, PARAMS(proto), PARAMS(args), PARAMS(tstruct), \
				   PARAMS(assign), PARAMS(print)) \
	DEFINE_CUSTOM_EVENT(name, name, PARAMS(proto), PARAMS(args))
#undef DECLARE_CUSTOM_EVENT_CLASS
#define DECLARE_CUSTOM_EVENT_CLASS(name, proto, args, tstruct, assign, print) \
	DECLARE_EVENT_CLASS(custom_##name, PARAMS(proto), PARAMS(args), PARAMS(tstruct), \
			    PARAMS(assign), PARAMS(print))
#define TRACE_CUSTOM_MULTI_READ
#define CREATE_TRACE_POINTS
#include <trace/define_trace.h>
#undef TRACE_CUSTOM_MULTI_READ
#endif
