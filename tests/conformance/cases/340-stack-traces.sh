# Stack traces by a trigger, by options/stacktrace and by the function tracer, at all kinds of probes.
stk() { echo 0 > $TRACING/tracing_on
grep -v '^#' $TRACING/trace | sed -n '/stack trace/,$p' | sed -E \
	's/^.*: <stack trace>/<stack trace>/;s/=> 0x[0-9a-f]{16}/=> ADDR/' | norm | sed -n 1,${1:-12}p
echo > $TRACING/trace; echo 1 > $TRACING/tracing_on; }
both() { echo "== $1"; echo stacktrace > $EV/$1/trigger; on $1; echo > $TRACING/trace; $HIT 1; stk
echo '!stacktrace' > $EV/$1/trigger; echo 1 > $TRACING/options/stacktrace; echo > $TRACING/trace
$HIT 1; stk; echo 0 > $TRACING/options/stacktrace; off $1; }
look() { echo > $TRACING/trace; $KIO "open:r:$KPROBES/enabled" read:1 close >/dev/null; }
add "p:ft $HITSYM"; both ft; add "p:ft2 $HITSYM"; both ft; clr
add "r:rt $HITSYM"; both rt; clr
add 'p:in vfs_read+5'; echo 0 > $SYSCTL; echo stacktrace > $EV/in/trigger; on in; look; stk 8; echo 1 > $SYSCTL; sleep 0.5; look; stk 6; off in; echo '!stacktrace' > $EV/in/trigger; clr
echo vfs_read > $TRACING/set_ftrace_filter; echo function > $TRACING/current_tracer; echo 1 > $TRACING/options/func_stack_trace; look; stk 5
add "p:ft vfs_read"; on ft; look; stk 6; off ft; clr; echo 0 > $TRACING/options/func_stack_trace; echo nop > $TRACING/current_tracer; echo > $TRACING/set_ftrace_filter
S=$TRACING/events/syscalls/sys_enter_getppid; echo 1 > $TRACING/options/stacktrace; echo 1 > $S/enable; echo > $TRACING/trace; $HIT 1; stk 2; echo 0 > $S/enable; echo 0 > $TRACING/options/stacktrace
