# Every switch at once: what each of them lets through to the trace and to an instance.
T=/sys/kernel/tracing
K=/sys/kernel/debug/kprobes
O=/proc/sys/debug/kprobes-optimization
E=$T/events/kprobes
act() { chmod 600 /tmp/a; ln /tmp/a /tmp/b; rm /tmp/b; }
seen() { # of chmod and ln, in the trace, in the instance, by the profile
    echo "$1: $(grep -c ': chmod:' $T/trace) $(grep -c ': ln:' $T/trace)" \
        "$(grep -c ': chmod:' $T/instances/other/trace)" \
        "$(awk '{ print $1, $2 }' $T/kprobe_profile | tr '\n' ' ')" \
        "on=$(cat $T/tracing_on) list=$(cut -c18- $K/list | sort | tr '\n' ';')"
    for trace in $T/trace $T/instances/other/trace; do echo >$trace; done
}
echo >/tmp/a
echo 'p:chmod do_fchmodat' >$T/kprobe_events
echo 'r:ln do_linkat' >>$T/kprobe_events
mkdir $T/instances/other
act; seen 'nothing is on'
echo 1 >$E/enable
echo 1 >$T/instances/other/events/kprobes/chmod/enable
act; seen 'all is on'
echo 0 >$K/enabled
act; seen 'disarmed'
echo 1 >$K/enabled; echo 0 >$O
act; seen 'armed, without optimization'
echo 0 >$T/tracing_on
act; seen 'tracing is off'
echo 1 >$T/tracing_on
echo 'comm == "nobody"' >$E/chmod/filter
act; seen 'filtered'
echo 'comm == "chmod"' >$E/chmod/filter
echo 'traceoff:1' >$E/ln/trigger
act; act; seen 'stopped by a trigger'
echo '!traceoff' >$E/ln/trigger; echo 1 >$T/tracing_on
echo 0 >$E/enable
act; seen 'only the instance'
cat $E/enable $E/chmod/enable $T/instances/other/events/kprobes/chmod/enable $O $K/enabled
echo 0 >$T/instances/other/events/enable
rmdir $T/instances/other
echo 1 >$O; rm /tmp/a
