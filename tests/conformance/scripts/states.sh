# How probes of all kinds are shown, while they and all of them are switched.
T=/sys/kernel/tracing
L=/sys/kernel/debug/kprobes/list
ON=/sys/kernel/debug/kprobes/enabled
O=/proc/sys/debug/kprobes-optimization
show() { echo "$1:"; cut -c18- $L | sort; }
echo 'p:entry vfs_read' >$T/kprobe_events
echo 'p:inside vfs_write+5' >>$T/kprobe_events
echo 'r:back ksys_read' >>$T/kprobe_events
show 'new'
echo 1 >$T/events/kprobes/enable
show 'enabled'
echo 0 >$O; show 'without jumps'
echo 1 >$O; show 'with jumps'
echo 0 >$ON; show 'disarmed'
echo 0 >$O; echo 1 >$ON; show 'armed, without jumps'
echo 1 >$O; show 'with jumps again'
echo 0 >$T/events/kprobes/back/enable; show 'back is off'
cat $T/events/kprobes/enable $T/events/kprobes/*/enable $ON $O
echo 'p:second vfs_write+5' >>$T/kprobe_events; show 'two at one place'
echo 0 >$ON; echo 1 >$T/events/kprobes/second/enable; echo 1 >$ON; show 'enabled while disarmed'
for value in 2 x '' ' 1' yes off 1; do
    echo "$value" >$ON && echo "enabled takes '$value': $(cat $ON)"
    echo "$value" >$O && echo "kprobes-optimization takes '$value': $(cat $O)"
done 2>/dev/null
(echo 'p:more vfs_open' >$T/kprobe_events) 2>/dev/null || echo 'busy'
echo 0 >$T/events/kprobes/enable
echo 'p:more vfs_open' >$T/kprobe_events && show 'all but the last are gone'
echo >$T/kprobe_events
show 'none'
