# Synthetic events: defining, showing and deleting them by synthetic_events and dynamic_events.
SE=$TRACING/synthetic_events; DE=$TRACING/dynamic_events; ES=$TRACING/events/synthetic
sw() { w $SE "$1"; }
sd() { w $DE "$1"; }
say() { echo "--- $*"; }
both() { echo "<$(cat $SE)>"; echo "[$(cat $DE)]"; }
$KIO stat:$SE
ls $ES 2>&1 | grep -c .
say several lines, blanks, comments, no semicolons
wr $SE 'a1 u64 v\n# a comment\n\n  a2   int  x ;  char  c ; # behind\n\ta3\tu8 b u16 w; s32 d;;  ;\na4 u64 last'
both
say deletion by mark
sw '!a1'; sw '!a2 any thing'; sw '!nosuch'; sw '! a3'; sw '!'; sw '!a3;'; sw '-:a3'; sw '-:synthetic/a3'
both
say deletion in dynamic_events
sd '!:a3'; sd '!a4'; sd '-:synthetic/a4 whatever u64 x'; sd '-:a4'; sd '-:synthetic/'
both
say types
sw 't1 s8 a; s16 b; s32 c; s64 d; u8 e; u16 f; u32 g; u64 h'
sw 't2 char a; unsigned char b; int c; unsigned int d; long e; unsigned long f; bool g; pid_t h; gfp_t i'
sw 't3 char[16] a; char b[8]; char[] c; char d[]; char[0] e; char[0x8] f; char[256] g; char[1] h; unsigned char[4] i'
sw 't4 long[] a; unsigned long[] b; unsigned long c[]; long[8] d; u64 e'
sw 't5 u64 same; u64 same'
for e in t1 t2 t3 t4 t5; do sed 's/^ID: .*/ID/' $ES/$e/format; done
both
say in dynamic_events
sd 's:d1 u64 a'; sd 's:synthetic/d2 u64 a; int b'; sd 's:other/d3 u64 a'; sd 's:d4'; sd 's: d5 u64 a'; sd 's:d6 u64'; sd 's'; sd 's d7 u64 a'
sd 's:synthetic/ d8 u64 a'; sd 's:d9 u64 a/b'; sd 's:!d9 u64 a'; sd ' s:d10 u64 a'; sd 'sx:d11 u64 a'; sd 's:synthetic/s/d12 u64 a'
sw 's:d13 u64 a'; sw 'synthetic/d14 u64 a'; sw 'd1 u64 a'; sw 'd1 int z'
both
say mixed with others
w $DE 'p:k1 vfs_read'; w $DE 's:m1 u64 a'; w $DE 'p:k2 vfs_open'
cat $KE; tail -n 3 $DE; tail -n 1 $SE
w $KE '-:m1'; w $SE '!k1'; w $KE 's:m2 u64 a'; w $SE 'p:k3 vfs_read'
say emptied
$KIO open:r:$SE read:5 read:200 lseek:0 read:7 close
$KIO open:wt:$SE close
both
clr
sw 'e1 u64 a'; $KIO open:wt:$DE close; both; ls $TRACING/events | grep -c synthetic
say kernel events of that name
w $KE 'p:synthetic/x vfs_read'; ls $ES; sw 'y u64 a'; w $KE 'p:synthetic/y vfs_read'; both
say positions and odd writes
$KIO open:wa:$SE 'write:q1 u64 a\nq2 u64\nq3 u64 a\n' 'write:q4 u64 a' 'write:; int b\n' 'write:q5 u64 a\0\n' 'writerep:#:4094' 'writerep:#:4096' 'writerep:q:5000' close
both
