# What a reader of trace gets who has read some of it when records come and go, options change, or the rings do.
cd $TRACING
many() { i=$2; while [ $i -le $3 ]; do echo $1$i > trace_marker; i=$((i+1)); done; }
# how a file goes on behind its first 800 bytes when some operations are made then; all are of one process, on one CPU
t() { f=$1; shift; $KIO @0 open:wt:trace open:w:trace_marker write:m1 write:m2 write:m3 write:m4 \
	write:m5 write:m6 write:m7 $FIRST @1 open:r:$f read:800 "$@" @1 read:4000 read:4000 @0 \
	write:after @1 read:4000 | sed -E -n '/^read 800/,$p' | grep -v ' ok$' | sed -E -e \
	's/^(read [0-9]+) = [0-9]+ "(.*)"$/\1:\n\2/' | sed -e 's/\\n/\n/g' | grep -v '^#' | sed -E -e \
	's/^ *[^ ]+-[0-9]+ +\[[0-9]+\] +([^ ]+) +[0-9]+\.[0-9]+:/T:/' -e 's/^ +[^ ]+-[0-9].*$/(part)/' \
	-e 's/^[0-9]+: /: /' | grep -v '^$' | norm; }
FIRST=
echo "-- records come"; t trace @0 write:late
echo "-- cleared"; t trace @2 open:wt:trace @0 write:late
echo "-- consumed"; t trace @2 open:rn:trace_pipe read:70 @0 write:late
echo "-- options"; t trace @2 open:w:trace_options write:nocontext-info; w trace_options context-info
echo "-- resized"; t trace @2 open:w:buffer_size_kb write:100 open:w:free_buffer close; cat buffer_size_kb
echo "-- a tracer"; t trace @2 open:w:current_tracer write:function write:nop @0 write:late
echo "-- a clock"; t trace @2 open:w:trace_clock write:counter @0 write:late; w trace_clock local
FIRST='@2 open:w:snapshot write:1 @0 write:n1 write:n2 write:n3 write:n4 write:n5 write:n6 write:n7'
echo "-- swapped out"; t trace @2 write:1 @0 write:late
echo "-- snapshot swapped in"; t snapshot @2 write:1 @0 write:late
echo "-- snapshot freed"; t snapshot @2 write:0 @0 write:late; sed -n 4p snapshot
echo "-- none while it is read"
$KIO @1 open:w:snapshot write:0 @2 open:r:snapshot @1 write:1 @2 close @1 write:1 @2 \
	open:r:snapshot @1 write:0 write:1 write:0 @2 close @1 write:0; mkdir instances/p
$KIO @1 open:w:instances/p/snapshot @2 open:r:instances/p/snapshot @1 write:1 @2 close @1 write:1 \
	write:0 close; rmdir instances/p
FIRST=; add 'p:ev __x64_sys_getppid'; on ev; $HIT 1; FIRST='@3 open:r:trace'
echo "-- event gone"; off ev; echo > trace; on ev; $HIT 7; off ev; $KIO @1 open:r:trace read:800 @2 open:wt:kprobe_events @1 read:4000 | tail -n 1 | sed -E 's/\\n/\n/g; s/type [0-9]+/type N/' | tail -n 2 | sed 's/^.*: //'
echo "-- overwritten"; echo > trace; w buffer_size_kb 4; many m 1 20; exec 3<trace
dd bs=800 count=1 <&3 2>/dev/null | tail -n 1 | cut -c59-; echo; many m 21 300
cat <&3 | sed 's/^.*: //' | sed -n '1,4p;$p' | sed 's/CPU:[01]/CPU:N/'; exec 3<&-
echo "-- overwritten before"; echo > trace; many m 1 20; exec 3<trace; many m 21 300; cat <&3 | sed 's/^.*: //' | sed -n '3p;12,14p;$p' | sed 's/ .P.*//'; exec 3<&-; w buffer_size_kb 1408
echo "-- sought"; echo > trace; many m 1 5; $KIO open:r:trace read:20:0 pread:18:654 read:30 lseek:654:s read:18 lseek:10000:s read:10 lseek:5:s read:10 lseek:0:s read:9 | norm
echo > trace
