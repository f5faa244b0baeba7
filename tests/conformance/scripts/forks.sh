# Forks of this shell, seen at the entry and at the return of kernel_clone.
cd /sys/kernel/tracing || exit 1
echo "$$" >set_event_pid
echo 'p:forks kernel_clone' >kprobe_events
echo 'r4:forked kernel_clone child=$retval:s64 who=$comm' >>kprobe_events
echo 'p:forks vfs_mkdir' >>kprobe_events
cat kprobe_events
echo 1 >events/kprobes/forks/enable
echo 1 >events/kprobes/forked/enable
(true)
(exit 3)
echo "status $?"
true | true
echo 0 >events/kprobes/enable
grep -v '^#' trace | sed "s/-$$ /-ME /" |
    sed -E 's/^ *[^ ]+-/SHELL-/; s/who="[a-z]+"/who=SHELL/; s/ +\[[0-9]+\] [^ ]+ +[0-9.]+:/:/; s/\([^)]*<- /(CALLER <- /; s/child=[0-9]+/child=N/'
sed 's/ *[0-9]* *\([0-9]*\)$/ ... missed \1/' kprobe_profile
# a probe of an event of two goes, the event stays
echo '-:forks vfs_mkdir' >>kprobe_events
cat kprobe_events
ls events/kprobes
echo '-:forks' >>kprobe_events
echo '-:kprobes/forked' >>kprobe_events
cat kprobe_events
echo >set_event_pid
# the kernel's own events say the same
echo "parent_pid == $$" >events/sched/sched_process_fork/filter
echo 1 >events/sched/sched_process_fork/enable
(true)
(true)
echo 0 >events/sched/sched_process_fork/enable
sed -n 's/.*: \(sched_process_fork\): /\1: /p' trace | sed 's/pid=[0-9]*/pid=N/g; s/comm=[a-z]*/comm=SHELL/g'
echo 0 >events/sched/sched_process_fork/filter
