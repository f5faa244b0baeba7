# The kernel's own events of tasks and system calls: their files and formats.
cd $TRACING; for e in sched/sched_switch sched/sched_process_fork sched/sched_process_exit \
	sched/sched_wakeup sched/sched_waking sched/sched_wakeup_new syscalls/sys_enter_read \
	syscalls/sys_exit_read syscalls/sys_enter_openat syscalls/sys_enter_getppid \
	raw_syscalls/sys_enter raw_syscalls/sys_exit; do
echo "== $e"; ls events/$e; sed 's/^ID: .*/ID/' events/$e/format; cat events/$e/enable events/$e/filter; done
ls events/raw_syscalls; grep -E '^(sched:sched_switch|raw_syscalls:sys_enter|syscalls:sys_enter_read)$' available_events | sort; grep -c ftrace available_events
