# The order of set_event: newest first, but an instance lists the events that are older than itself the other way round.
add 'p:a __x64_sys_getppid'; add 'p:b __x64_sys_getppid'; add 'p:g/c __x64_sys_getppid'
mkdir $TRACING/instances/i
add 'p:d __x64_sys_getppid'; add 'p:g/e __x64_sys_getppid'
for t in $TRACING $TRACING/instances/i; do
    for e in kprobes: g: '!b' kprobes:b '!g:*' '!kprobes:'; do echo "# $e"; w $t/set_event "$e"; cat $t/set_event; done
done
w $TRACING/instances/i/set_event kprobes:; add '-:a'; add '-:d'; add '-:g/c'
echo 0 > $TRACING/instances/i/events/enable; rmdir $TRACING/instances/i; cat $KE
