# What the files about the trace accept, and where that leaves the file position.
cd $TRACING
try() { f=$1; shift; for v in "$@"; do w $f "$v"; cat $f; done; }
m=$(cat tracing_cpumask); try tracing_cpumask 0 1 00000001 000000001 0x1 x '' 1,1 0,1 1, ,1 ' 1' '1 ' '1 1'; $KIO open:rw:tracing_cpumask read:1 read:2 read:3 lseek:0 write:1 read:5; echo $m > tracing_cpumask
try buffer_percent 0 100 101 -1 x 0x1; $KIO open:rw:buffer_percent read:1 write:50 read:5 lseek:0 read:5
for f in trace_options trace_clock set_event snapshot events/sched/sched_switch/trigger \
	saved_cmdlines_size; do case $f in trace_options) v=sym-addr;; trace_clock) \
	v=global;; set_event) v=sched:sched_switch;; snapshot) v=0;; *trigger) v=traceoff;; *) \
	v=128;; esac; echo "-- $f"; $KIO open:rw:$f read:3 "write:$v" read:3 | sed 's/"[^"]*"$//'; done
w trace_options nosym-addr; w trace_clock local; wt set_event ''; w events/sched/sched_switch/trigger '!traceoff'; w tracing_on 1; w trace_options notest_nop_refuse; w options/test_nop_refuse 0
for f in trace trace_marker trace_marker_raw free_buffer set_ftrace_filter set_ftrace_pid set_event error_log snapshot; do echo "-- $f"; $KIO open:w:$f lseek:0:e close; done; w buffer_size_kb 1408
echo > trace; for v in abcd abcde 'abcdefghijklmnop\n'; do wr trace_marker_raw "$v"; done
grep -v '^#' trace | sed 's/^.*[0-9]: //' | cut -c1-26
$KIO open:w:trace_marker_raw write:abc writerep:x:3072 writerep:x:3073; echo > trace
w trace_marker x; cat per_cpu/*/stats | grep bytes | sort | tail -n 1
$KIO @1 open:rn:trace_pipe @2 open:rn:trace_pipe open:rn:per_cpu/cpu0/trace_pipe @1 close
w set_ftrace_pid 4194304; cat set_ftrace_pid; wt set_ftrace_pid ''
