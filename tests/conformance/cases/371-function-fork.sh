# With function-fork the children of listed tasks join the lists of pids of functions, and who is gone leaves them.
cd $TRACING; f=/tmp/fork$$; mkfifo $f.a $f.b
p=set_ftrace_pid n=set_ftrace_notrace_pid o=options/function-fork
cat $o; echo $$ >$p; child $p 'a child without the option'; echo 1 >$o; cat $o; grep function-fork trace_options
child $p 'a child'; gone $p 'when it is gone'; has $p $$ 'the shell'; has $n $$ 'notrace'; has set_event_pid $$ 'of events'
live $p 'one that stays'; echo 0 >$o; has $p $k 'switched off'; die; sleep 0.3; has $p $k 'gone'; echo 1 >$o
echo $$ >$n; child $n 'a child, notrace'; gone $n 'when it is gone'; echo >$n; cat $n; child $n 'no list of those'
echo >$p; cat $p; child $p 'no list'; live $p 'one that is'; echo $k >>$p; has $p $k 'written to the file'; die; gone $p 'gone'; cat $p; echo 'is empty'
echo '*_sys_getppid' >set_ftrace_filter; echo function >current_tracer; grep function-fork trace_options
$HIT 2; echo "nobody is listed: $(trc | wc -l)"; echo >$p; $HIT 2; echo "no list: $(trc | wc -l)"; echo >trace
echo $$ >$p; $HIT 3; echo "children too: $(trc | wc -l)"; echo >trace; echo $$ >$n; $HIT 3; echo "notrace children: $(trc | wc -l)"; echo >$n; echo 0 >$o; $HIT 3; echo "without the option: $(trc | wc -l)"
echo nop >current_tracer; echo >set_ftrace_filter; echo >$p; rm $f.a $f.b
