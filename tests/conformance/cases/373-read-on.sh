# Files that give nothing behind their first read; an empty snapshot's pages; names beside a trigger's stack traces.
T=$TRACING
add "p:e $HITSYM"
w $EV/e/filter 'common_pid > 0'
for f in events/header_page events/header_event events/kprobes/e/filter events/kprobes/filter events/kprobes/e/id; do
    [ "$(dd if=$T/$f bs=2 2>/dev/null)" = "$(cat $T/$f)" ] && echo "$f: all" || echo "$f: what one read takes"
done
echo 0 >$T/snapshot
$KIO "open:rn:$T/per_cpu/cpu0/snapshot_raw" read:4096
w $EV/e/trigger stacktrace
$HIT 1
grep '<stack trace>' $T/trace | sed -E 's/^ *[^ <]+-[0-9]+ .*</NAME-PID </' | uniq
w $EV/e/trigger '!stacktrace'
$KIO "open:rn:$T/per_cpu/cpu0/snapshot_raw" poll
