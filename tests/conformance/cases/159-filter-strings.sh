# Filters on strings and on fields of the kernel's own events, with their errors.
f() { w $TRACING/events/$1/filter "$2"; cat $TRACING/events/$1/filter; }; s=sched/sched_switch o=syscalls/sys_enter_openat
f $s 'prev_comm ~ "ab*" && prev_state == 2'; f $s 'prev_comm == abc'; f $s 'prev_comm > "abc"'
f $s 'prev_pid == "abc"'; f $s 'comm == "abc"'
f sched/sched_wakeup 'comm == "abc" || target_cpu & 1'; f sched/sched_wakeup 'comm[16] == "abc"'
f sched/sched_process_fork 'parent_comm == "sh" && !(child_comm ~ "x*")'
f sched/sched_process_fork 'COMM == "sh"'
f raw_syscalls/sys_enter 'args == 0'; f raw_syscalls/sys_enter 'args ~ "x"'
f $o 'filename == "x"'; f $o 'filename.ustring ~ "x*"'; f $o 'filename == 5'
f $o 'flags.ustring == 1'; f $o 'dfd == -100 && flags & 1'; f syscalls/sys_exit_openat 'ret < 0'
f $s 0; f sched/sched_wakeup 0; f sched/sched_process_fork 0; f raw_syscalls/sys_enter 0; f $o 0; f syscalls/sys_exit_openat 0
