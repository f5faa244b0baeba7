# The directory of a synthetic event: its files, enable, filters, triggers, and deletion while in use.
SE=$TRACING/synthetic_events; DE=$TRACING/dynamic_events; ES=$TRACING/events/synthetic
sw() { w $SE "$1"; }
sw 'one u64 v; char[16] s; char[] d; int n'; sw 'two pid_t p; gfp_t g; bool b; unsigned char c'
ls $ES $ES/one; for f in $ES/enable $ES/one/enable $ES/one/filter $ES/one/format $ES/one/id $ES/one/trigger $ES/one/hist; do stat -c '%a %s %n' $f | sed "s,$TRACING,T,"; done
i1=$(cat $ES/one/id); i2=$(cat $ES/two/id); echo ids $((i2 - i1))
sed 's/^ID: .*/ID/' $ES/one/format $ES/two/format
grep synthetic $TRACING/available_events
cat $ES/enable $ES/one/enable $ES/one/filter; head -n 1 $ES/one/trigger; grep -c . $ES/one/hist
echo --- enable
w $ES/one/enable 1; cat $ES/one/enable $ES/enable; cat $TRACING/set_event
sw '!one'; w $DE '-:one'; w $DE '-:synthetic/one'; $KIO open:wt:$SE open:wt:$DE; cat $SE
w $ES/enable 1; cat $ES/enable; sw '!two'; w $ES/enable 0; cat $ES/enable
w $TRACING/set_event 'synthetic:two'; cat $TRACING/set_event; w $TRACING/set_event 'one'; cat $TRACING/set_event; w $TRACING/set_event '!synthetic:'; cat $TRACING/set_event; w $TRACING/set_event 'synthetic:nosuch'
w $ES/one/enable 2; w $ES/one/id 1; w $ES/one/format 1
echo --- order of deletion
sw 'one u64 v'; sw 'three u64 v'; sw 'four u64 v'
w $ES/three/enable 1; $KIO open:wt:$SE close; cat $SE; ls $ES; w $ES/three/enable 0; $KIO open:wt:$SE close; cat $SE
echo --- filters
sw 'one u64 v; char[16] s; char[] d; int n; long[] st'; 
for f in 'v > 5' 's == "abc"' 's ~ "a*"' 'd == "x" && n < 0' 'd ~ "*y"' 'st == 1' 'v == "a"' 's == 4' 'nosuch == 1' 'common_pid == 1 || v & 3' 'n == -1' 'v == -1' '0'; do w $ES/one/filter "$f"; cat $ES/one/filter; done
w $ES/filter 'v == 3'; cat $ES/one/filter; w $ES/filter 0; cat $ES/one/filter
echo --- triggers
w $ES/one/trigger 'traceoff:3 if v == 1'; cat $ES/one/trigger $ES/one/enable; sw '!one'; w $ES/one/trigger '!traceoff'; cat $ES/one/enable
sw 'two u64 v'; w $ES/one/trigger 'enable_event:synthetic:two'; cat $ES/one/trigger $ES/one/enable $ES/two/enable; sw '!two'; w $DE '-:two'; sw '!one'; w $ES/one/trigger '!enable_event:synthetic:two'; sw '!two'; cat $ES/one/enable
echo --- instances
mkdir $TRACING/instances/i; ls $TRACING/instances/i | grep -c -e synthetic_events -e dynamic_events; ls $TRACING/instances/i/events/synthetic
w $TRACING/instances/i/events/synthetic/one/enable 1; cat $ES/one/enable $TRACING/instances/i/events/synthetic/one/enable; sw '!one'; w $DE '-:one'; $KIO open:wt:$SE; rmdir $TRACING/instances/i; sw '!one'; cat $SE
echo --- open while it goes
sw 'one u64 v'; $KIO open:rw:$ES/one/enable @1 open:wa:$SE 'write:!one\n' @0 read:9 'write:1' @2 open:r:$ES/one/format
