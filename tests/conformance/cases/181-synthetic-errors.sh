# Synthetic events that are refused: errno, error_log text and caret of each.
SE=$TRACING/synthetic_events; DE=$TRACING/dynamic_events
f64=""; i=0; while [ $i -lt 64 ]; do f64="$f64 u8 f$i;"; i=$((i+1)); done
long=abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz
try() { elogclr; echo "--- $2"; w "$1" "$2"; elog 9; grep "^a	" $SE && w $SE "!a"; }
w $SE 'have u64 v'
for c in 'a' 'a u64' ' a u64' 'a; u64 v' '; a u64 v' 'a b c' 'a u64 v w' 'a u64 v x y' 'a-b u64 v' '9a u64 v' 'a.b u64 v' 'a u64 v-w' 'a u64 9v' \
  'a u64 v; u64' 'a u64 v; u64 w x' 'a unsigned int' 'a u64 v; unsigned int' 'a u64 v; unsigned' 'a unsigned u64 v' 'a unsigned pid_t v' 'a u64[2] v' 'a u64 v[2]' \
  'a u64 v; nosuch w' 'a u64 v; char w[257]' 'a char[300] w' 'a char[1000] w' 'a char w[1000]' 'a char[x] w' 'a char w[x]' 'a char[-1] w' 'a char[4 w' 'a char w[4' 'a char w[4]x' 'a char[4]x w' 'a char [4] w' \
  'a char w[]; char[] [3]' 'a u64 [3]' 'have u64 v' 'have int w' '  have   u64   w' 'a have u64; have v' 'a u64 a; long[3 b' 'a long[]x b' 'a unsigned char[3] b c' 'a xchar[5] w' 'a u64 v, u64 w' 'a u64 v ;; bool' \
  'a const char[4] w' 'a char * w' 'a int *w' 'a size_t w' 'a __data_loc char[] w' 'a stack s' 'a string s' '!have2' '!a;b' 'a u64 v[' "a u64 $long" "$long u64 v"; do
  try $SE "$c"
done
try $SE "ok64$f64"; try $SE "no65$f64 u64 v"
for c in 's:' 's:a' 's:a u64' 's:g/a u64 v' 's:synthetic/a u64' 's:synthetic/a-b u64 v' \
	's:have u64 v' 's:synthetic/have   int v' 's:a u64 v/w' 's:synthetic/a u64 v; bad w' \
	's:a u64 v; u64' '-:nosuch' '-:other/have' 's;a u64 v' 's:synthetic/ a u64 v' 's: a u64 v' \
	's:a; u64 v'; do
  try $DE "$c"
done
cat $SE | cut -c1-60
