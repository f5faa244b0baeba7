# Definitions that are refused, one by one and among others, and what error_log keeps.
cd /sys/kernel/tracing || exit 1
echo >error_log
say() { sed 's/^\[ *[0-9.]*\]/[TIME]/' error_log; }
try() { printf '%s\n' "$1" >>kprobe_events 2>/dev/null && echo "taken: $1" || echo "refused: $1"; }
try 'p:a nosuch'
try 'p:a vfs_read+1'
try 'p:a vfs_read x=%zz'
try 'p:a vfs_read x=+0(%di'
try 'p:a vfs_read x=%di:u128'
try 'p:a-b vfs_read'
try 'p:a do_int3'
try 'r:a vfs_read+5'
try 'r99999:a vfs_read'
try 'p:a vfs_read $retval'
say
printf '# a comment\n\np:one vfs_read\np:two   vfs_write  a=%%di:u8 # the rest\np:three nosuch\np:four vfs_open\n' \
    >>kprobe_events 2>/dev/null || echo 'the third is refused'
cat kprobe_events
try 'p:one vfs_open'
try 'p:one vfs_open a=%di'
try 'r:one vfs_open'
try 'p:one vfs_read'
try '-:nosuch'
try '-:one vfs_write'
try '-:one vfs_open'
try 'p:syscalls/sys_enter_read vfs_read'
cat kprobe_events
say | tail -n 6
echo 1 >events/kprobes/two/enable
try '-:two'
echo 0 >events/kprobes/two/enable
try '-:two'
echo >kprobe_events
cat kprobe_events
