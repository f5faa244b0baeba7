# Each segment of a writev() is a write of its own, except for sysctls.
look() { echo "--- ${1##*/}"; $KIO "open:rw:$1" "writev:$2|$3" lseek:0:cur "writev:|$2" lseek:0:cur "writev:$2||$3" lseek:0:cur writev:; }
add 'p:e vfs_read'
look $KPROBES/enabled 0 1
look $SYSCTL 1 0
look $SYSCTL 1 ' '
look $TRACING/kprobe_events 'p:a vfs_write\n' 'p:b vfs_open\n'
look $TRACING/kprobe_events '-:a\n' 'nonsense\n'
look $TRACING/events/kprobes/e/enable 1 0
look $TRACING/events/kprobes/e/enable 0 x
look $TRACING/tracing_on 0 1
look $TRACING/trace_marker 'one\n' two
look $TRACING/set_event 'kprobes:e' '\n'
off e; cat $KE; cat $TRACING/error_log | tail -n 3 | sed 1d; trc | grep -v ' e: '
