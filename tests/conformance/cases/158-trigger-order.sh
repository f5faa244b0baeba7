# Triggers traceoff, traceon, enable_event and disable_event: is the hit that fires them still recorded?
add 'p:e __x64_sys_getppid'; add 'p:g __x64_sys_getppid'; S=syscalls/sys_enter_getppid
t() { echo "## $1 $2 on=$3"; echo > $TRACING/trace; echo $3 > $TRACING/tracing_on
w $TRACING/events/$1/trigger "$2"; echo 1 > $TRACING/events/$1/enable; $HIT 3
echo 0 > $TRACING/events/$1/enable; grep -v '^#' $TRACING/trace | grep -c getppid
cat $TRACING/tracing_on $TRACING/events/$1/trigger; w $TRACING/events/$1/trigger "!$2"
echo 1 > $TRACING/tracing_on; }
for e in kprobes/e $S; do t $e traceoff 1; t $e traceoff:1 1; t $e traceoff:0 1; t $e 'traceoff if common_pid > 0' 1; t $e 'traceoff if common_pid < 0' 1; t $e traceon 0; t $e traceon:1 0; t $e 'traceon if common_pid > 0' 0; done
w $EV/e/filter 'common_pid > 0'; t kprobes/e 'traceon if common_pid > 0' 0; t kprobes/e 'traceoff:2 if common_pid > 0' 1; w $EV/e/filter 0
echo > $TRACING/trace; w $EV/e/trigger traceoff; $HIT 3; trc; cat $TRACING/tracing_on; echo 1 > $TRACING/tracing_on; w $EV/e/trigger '!traceoff'
w $EV/e/trigger disable_event:kprobes:e; w $EV/e/trigger enable_event:kprobes:g
w $EV/e/trigger enable_event:kprobes:nosuch; cat $EV/e/trigger $EV/e/enable $EV/g/enable; on e
$HIT 3; trc; cat $EV/e/enable $EV/g/enable; w $EV/e/trigger '!disable_event:kprobes:e'
w $EV/e/trigger '!enable_event:kprobes:g'; cat $EV/e/enable $EV/g/enable; off e; off g; clr
