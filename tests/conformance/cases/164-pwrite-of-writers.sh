# Every file opened for writing alone: where lseek() and pwrite() are allowed, for some are no seq_file.
look() { echo "--- ${1##*/}"; $KIO "open:w:$1" write: "write:$2" "pwrite:3:$2" "pwrite:-1:$2"; }
T=$TRACING
add 'p:e vfs_read'
look $KPROBES/enabled 1
look $SYSCTL 1
look $T/kprobe_events 'p:a vfs_write\n'
look $T/dynamic_events '-:a\n'
look $T/error_log x
look $T/events/kprobes/e/enable 0
look $T/events/kprobes/e/trigger '!traceon'
look $T/set_event 'kprobes:e\n'
look $T/set_event_pid 1
look $T/set_ftrace_filter 'vfs_read '
look $T/set_ftrace_pid 1
look $T/stack_trace_filter 'vfs_read '
look $T/trace x
look $T/trace_options print-parent
look $T/trace_marker abc
look $T/trace_clock local
look $T/snapshot 2
look $T/kprobe_profile x
look $T/trace_pipe x
off e
for f in set_event_pid set_ftrace_filter set_ftrace_pid stack_trace_filter; do : >$T/$f; done
