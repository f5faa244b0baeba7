# Records of the kernel's own system call events, with filters, set_event and an instance.
S=$TRACING/events/syscalls; w $S/sys_enter_getppid/enable 1; w $S/sys_exit_getppid/enable 1; cat $S/enable; $HIT 2; w $S/enable 0; trc | sed -E 's/-> 0x[0-9a-f]+/-> N/'; wt $TRACING/trace ''
R=$TRACING/events/raw_syscalls; w $R/sys_enter/filter 'id == 110'
w $R/sys_exit/filter 'id == 110'; w $R/enable 1; $HIT 2; w $R/enable 0; cat $R/sys_enter/filter
trc | sed -E 's/\(.*\)/(ARGS)/; s/= [0-9]+$/= N/'; w $R/filter 0; cat $R/sys_exit/filter
w $TRACING/set_event syscalls:sys_enter_getppid; w $TRACING/set_event sched:sched_switch; cat $TRACING/set_event; w $TRACING/set_event '!sched:*'; cat $TRACING/set_event; wt $TRACING/set_event ''; cat $TRACING/set_event
w $S/sys_exit_getppid/filter 'ret > 0 && __syscall_nr == 110'; w $S/sys_exit_getppid/enable 1
wt $TRACING/trace ''; $HIT 2; w $S/sys_exit_getppid/filter 'ret <= 0'; $HIT 2
w $S/sys_exit_getppid/enable 0; w $S/sys_exit_getppid/filter 0; trc | wc -l
mkdir $TRACING/instances/x; w $TRACING/instances/x/events/syscalls/sys_enter_getppid/enable 1
$HIT 2; cat $S/sys_enter_getppid/enable $TRACING/instances/x/set_event
grep -c 'sys_getppid()' $TRACING/instances/x/trace; grep -c 'sys_getppid()' $TRACING/trace
rmdir $TRACING/instances/x; cat $S/sys_enter_getppid/enable
