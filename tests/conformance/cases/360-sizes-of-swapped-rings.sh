# What the sizes are said to be when a trigger has swapped rings of different sizes.
add 'p:e __x64_sys_getppid'
w $EV/e/trigger snapshot
see() { cat $TRACING/buffer_size_kb $TRACING/per_cpu/cpu0/buffer_size_kb | tr '\n' ' '; grep -c ' e: ' $TRACING/trace; }
see
echo 100 > $TRACING/buffer_size_kb; see
on e
$HIT 1; see
$HIT 1; see
$HIT 500; see
$HIT 1; see
w $EV/e/trigger '!snapshot'
echo 0 > $TRACING/snapshot; see
