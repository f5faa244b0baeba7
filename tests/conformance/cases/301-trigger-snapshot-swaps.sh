# A snapshot trigger that has a condition takes the record that fires it along; one without leaves it. It works while tracing is off.
add 'p:e __x64_sys_getppid i=\\5'
on e
see() { for f in trace snapshot; do echo "$f: $(grep -c ' e: ' $TRACING/$f)"; done; }
for t in 'snapshot if i == 5' 'snapshot' 'snapshot if i == 6'; do
    w $EV/e/trigger "$t"
    for f in 0 'i == 5' 'i == 6'; do
        echo "# $t, filter $f"; w $EV/e/filter "$f" | grep -v ' = [0-9]'
        echo 0 > $TRACING/snapshot; echo 1 > $TRACING/snapshot; echo 2 > $TRACING/snapshot; echo > $TRACING/trace
        $HIT 1; see; echo 0 > $TRACING/tracing_on; $HIT 1; see; echo 1 > $TRACING/tracing_on
    done
    w $EV/e/trigger '!snapshot'
done
echo 0 > $TRACING/snapshot
for t in traceon:9223372036854775807 traceon:9223372036854775808 traceon:18446744073709551614 traceon:18446744073709551615; do
    w $EV/e/trigger $t; cat $EV/e/trigger; w $EV/e/trigger '!traceon'
done
