# Commands in set_ftrace_filter: traceoff, stacktrace, snapshot and enable_event at a function, and what is refused.
cd $TRACING; F=set_ftrace_filter; G=__do_sys_getppid
on1() { echo 1 > tracing_on; cat tracing_on; }
echo $G > $F; echo function > current_tracer; w $F $G:traceoff:1; cat $F; $HIT 1; cat tracing_on $F; on1; $HIT 1; cat tracing_on; grep -c "$G <-" trace; w $F "!$G:traceoff:0"; cat $F
echo nop > current_tracer; echo > $F; w $F $G:stacktrace:1; $HIT 2; grep -v '^#' trace | sed -E 's/^.*[0-9]: //;s/=> 0x[0-9a-f]{16}/=> ADDR/' | sed -n 1,4p; cat $F; w $F "!$G:stacktrace:0"
w $F $G:snapshot:1; $HIT 1; cat $F; w $F "!$G:snapshot:0"; echo 0 > snapshot
E=events/syscalls/sys_exit_getppid/enable; w $F $G:enable_event:syscalls:sys_exit_getppid:1
cat $E; $HIT 1; cat $E $F; w $F "!$G:enable_event:syscalls:sys_exit_getppid"
w $F "!$G:enable_event:syscalls:sys_exit_getppid:1"; cat $E; echo 0 > $E
for v in $G:traceon: "!$G:traceon:" $G:traceon:x $G:traceon:18446744073709551616 :traceon "!$G:traceon" $G:enable_event:sched $G:enable_event:nosuch:x nosuch:traceon; do w $F "$v"; done; cat $F
for v in 'a*:mod:nosuch' '!b:mod:nosuch' 'vfs_open:mod:!' '!a*:mod:nosuch'; do w $F "$v"; cat $F; done; wt $F ''; w set_ftrace_notrace $G:traceoff; w stack_trace_filter $G:traceoff; w stack_trace_filter $G:mod:nosuch
$KIO open:w:$F writerep:x:669 'write:\n' close open:w:$F writerep:x:670 'write:vfs_open\n' close; cat $F
