# Every file that is written: an empty write, where a write leaves the position, and pwrite().
T=$TRACING
look() { echo "--- ${1##*/}"; $KIO "open:rw:$1" write: lseek:7:set "write:$2" lseek:0:cur "pwrite:3:$2" lseek:0:cur; }
add 'p:e vfs_read'
look $KPROBES/enabled 1
look $SYSCTL 1
look $T/kprobe_events 'p:a vfs_write\n'
look $T/dynamic_events '-:a\n'
look $T/error_log x
look $T/events/kprobes/e/enable 1
look $T/events/kprobes/e/filter 'common_pid==1'
look $T/events/kprobes/e/trigger '!traceon'
look $T/events/kprobes/enable 0
look $T/events/kprobes/filter 0
look $T/events/enable 0
look $T/set_event 'kprobes:e\n'
look $T/set_event_pid '1 2'
look $T/set_event_notrace_pid 1
look $T/set_ftrace_filter 'vfs_read '
look $T/set_ftrace_notrace 'vfs_read '
look $T/set_ftrace_pid '1 2'
look $T/set_ftrace_notrace_pid 1
look $T/stack_trace_filter 'vfs_read '
look $T/trace x
look $T/per_cpu/cpu0/trace x
look $T/tracing_on 10
look $T/buffer_size_kb 1408
look $T/per_cpu/cpu0/buffer_size_kb 1408
look $T/trace_options print-parent
look $T/options/stacktrace 0
look $T/trace_marker abc
look $T/trace_clock local
mask=$(cat $T/tracing_cpumask); look $T/tracing_cpumask 1; echo $mask >$T/tracing_cpumask
look $T/snapshot 2
look $T/per_cpu/cpu0/snapshot 2
look $T/current_tracer nop
look $T/kprobe_profile x
look $T/events/kprobes/e/id x
look $T/events/kprobes/e/format x
look $T/per_cpu/cpu0/stats x
look $T/trace_pipe x
for f in set_event_pid set_event_notrace_pid set_ftrace_filter set_ftrace_notrace set_ftrace_pid set_ftrace_notrace_pid stack_trace_filter; do : >$T/$f; done
