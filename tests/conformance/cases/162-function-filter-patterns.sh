# Patterns, negation and split writes in set_ftrace_filter.
F=$TRACING/set_ftrace_filter; cat $F $TRACING/set_ftrace_notrace $TRACING/set_ftrace_pid
for p in vfs_read nosuch 'vfs_rea?' '!vfs_read' 'vfs_[rw]*d' '!*' '?fs_open' 'vfs_ope[!n]' \
	'[vfs_open' 'vfs_open\' 'vfs\_open' '*fs_op*n' '*:mod:nosuch' 'vfs_read:nosuchcmd' 'vfs_read:' \
	'!nosuch' '*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*zzz'; do w $F "$p"
cat $F | grep -E '^(vfs_(read|open)|####)' | sort; done
wt $F 'vfs_open do_sys_openat2'; cat $F | sort; wt $F ''; cat $F
wr $F vfs_read; cat $F; wr $F nosuch; cat $F; $KIO "open:wt:$F" 'write:vfs_' 'write:open' 'write: vfs_wr' 'write:\n' 'write:vfs_write' 'write:\n' | grep -v '^open.* ok'; cat $F; wt $F ''
