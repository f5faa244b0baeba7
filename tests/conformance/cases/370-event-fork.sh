# With event-fork the children of listed tasks join the lists of pids of events, and who is gone leaves them.
cd $TRACING; f=/tmp/fork$$; mkfifo $f.a $f.b
p=set_event_pid n=set_event_notrace_pid o=options/event-fork
echo $$ >$p; child $p 'a child without the option'; live $p 'one that was there'; echo 1 >$o; cat $o; grep event-fork trace_options; has $p $k 'still'; die
child $p 'a child'; has $p $$ 'the shell'; gone $p 'when it is gone'; has $p $$ 'the shell'; has $n $$ 'notrace'
( me; has $p $me 'a child'; ( me; has $p $me 'its child'; ( me; has $p $me 'and that of it'; true ); true ); true )
live $p 'one that stays'; echo 0 >$o; cat $o; has $p $k 'switched off'; die; sleep 0.3; has $p $k 'gone'; child $p 'a child then'; echo 1 >$o; child $p 'switched on again'
echo $$ >$n; child $n 'a child, notrace'; gone $n 'when it is gone'; echo >$n; child $n 'no list of those'
echo 1 >$p; child $p 'a child of another'; echo >$p; child $p 'no list'; has $p $$ 'the shell'
add "p:k $HITSYM"; on k; live $p 'one that is'; echo $k >>$p; has $p $k 'written to the file'; die; gone $p 'gone'; cat $p
$HIT 2; echo "nobody is listed: $(trc | wc -l)"; echo >$p; $HIT 2; echo "no list: $(trc | wc -l)"; echo >trace
echo $$ >$p; $HIT 3; echo "children too: $(trc | wc -l)"; echo >trace; echo $$ >$n; $HIT 3; echo "notrace children: $(trc | wc -l)"; echo >$n; echo 0 >$o; $HIT 3; echo "without the option: $(trc | wc -l)"; echo >trace; off k
echo >$p; clr; rm $f.a $f.b
