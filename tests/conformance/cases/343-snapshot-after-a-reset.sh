# What a swap of the snapshot brings back from before `echo > trace` is in the buffer, but not in `trace`.
cd $TRACING
t() { echo "-- $1"; grep -v '^#  ' $1 | sed 's/^.*[0-9]: /- /; s/ *#P.*//'; }
w snapshot 1; w trace_marker one; w snapshot 1; w trace_marker two; echo > trace
w snapshot 1; t trace; t snapshot
w trace_marker three; t trace; cat per_cpu/*/trace | grep -c -e one -e three; n=0; for f in per_cpu/*/stats; do read -r a b <$f; n=$((n + b)); done; echo entries: $n
w snapshot 1; t snapshot; w snapshot 1; t trace
$KIO open:rn:trace_pipe read:4096 | grep -o 'write: [a-z]*'
w snapshot 0; echo > trace; w trace_marker four; t trace
