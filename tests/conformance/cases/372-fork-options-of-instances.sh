# The options event-fork and function-fork: of an instance, and what is written to them.
cd $TRACING
both() { child set_event_pid "$1, events"; child set_ftrace_pid "$1, functions"; }
for o in event-fork function-fork; do for v in 1 0 2 x '' '1 ' 01 0x1 on -1; do w options/$o "$v"
cat options/$o; done; for v in $o no$o $o=1 " $o" "$o x" NO$o nono$o; do w trace_options "$v"
cat options/$o; done; echo 1 >options/$o; done
mkdir instances/x; cd instances/x; ls options | grep fork; grep fork trace_options
echo $$ >set_event_pid; echo $$ >set_ftrace_pid; both 'as it is made'
cd ../..; echo 0 >options/event-fork; echo 0 >options/function-fork; cd instances/x
echo 1 >options/event-fork; both 'event-fork'; cd ../..; both 'the first array'; echo $$ >set_event_pid; echo $$ >set_ftrace_pid; both 'and its lists'; cd instances/x
echo 1 >options/function-fork; both 'function-fork too'; echo 0 >options/event-fork; both 'function-fork alone'; echo 1 >options/event-fork
cd ../..; rmdir instances/x; both 'the instance is gone'; mkdir instances/x; cd instances/x; cat options/event-fork options/function-fork set_event_pid set_ftrace_pid; cd ../..; rmdir instances/x
echo >set_event_pid; echo >set_ftrace_pid
