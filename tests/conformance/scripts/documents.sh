# Where Linux 6.1 does otherwise than the documents of kprobes say (README.md, "Documents and kernel").
cd "$TRACING" || exit
list=$KPROBES/list
define() { # DEFINITION: is it taken, and if not, why?
    if echo "$1" >>kprobe_events; then echo "taken: $1"; else grep error: error_log | tail -n 1 | sed 's/.*error: //'; fi 2>/dev/null
}
tags() { sed 's/^[0-9a-f]* *//' "$list" | sort; }

echo '-- the boundary of an instruction is checked'
define 'p:inside vfs_read+1'
echo '-- most of kprobes itself can be probed, __switch_to cannot'
define 'p:itself register_kprobe'
define 'p:switch __switch_to'
define 'r:switched __switch_to'
echo '-- the tag of a jump comes before the jump'
define 'p:jump vfs_read+5'
echo 1 >events/kprobes/jump/enable; tags
echo '-- switched on while all are disarmed it is not armed with them'
echo 0 >events/kprobes/jump/enable
echo 0 >"$KPROBES/enabled"
echo 1 >events/kprobes/itself/enable
echo 1 >"$KPROBES/enabled"; tags
echo 0 >events/kprobes/itself/enable
echo '-- a stack trace shows the caller, not the trampoline of a return probe'
define 'r:returns vfs_read'
define 'p:within rw_verify_area'
echo stacktrace >events/kprobes/within/trigger
echo 1 >events/kprobes/enable
read -r line <"$0"
echo 0 >events/kprobes/enable
echo '!stacktrace' >events/kprobes/within/trigger
grep -A 2 '=> vfs_read' trace | tail -n 3
echo '-- the sysctl has a hyphen'
ls /proc/sys/debug | grep kprobes
echo >kprobe_events
