# shellcheck shell=sh disable=SC2086,SC2231 # paths without blanks
# SPDX-License-Identifier: GPL-2.0-or-later
# Sourced before every case. Needs: KPROBES (dir), SYSCTL (file), TRACING (dir),
# KIO (file-operation helper), HIT ("$HIT N" makes N getppid syscalls), HITSYM (probed symbol for it).
KE=$TRACING/kprobe_events
EV=$TRACING/events/kprobes
norm() { sed -E -e 's/(^|[^0-9a-fx])[0-9a-f]{16}([^0-9a-f]|$)/\1ADDR\2/g' -e 's,(\+0x[0-9a-f]+)/0x[0-9a-f]+,\1/SIZE,g' -e "s/__do_${HITSYM#__*64_}/HITFN/g; s/$HITSYM/HITSYM/g"; }
# w FILE STR: open O_WRONLY|O_APPEND (no truncation), write STR+newline, print result
w() { $KIO "open:wa:$1" "write:$2\n" | grep -v '^open.* ok'; }
# wr: same without the added newline; wt: with O_TRUNC
wr() { $KIO "open:wa:$1" "write:$2" | grep -v '^open.* ok'; }
wt() { $KIO "open:wt:$1" "write:$2\n" | grep -v '^open.* ok'; }
clr() { $KIO "open:wt:$KE" | grep -v '^open.* ok'; }
add() { w $KE "$1"; }
on() { w $EV/$1/enable 1; }
off() { w $EV/$1/enable 0; }
lst() { cat $KPROBES/list | norm | sort; }
prof() { cat $TRACING/kprobe_profile | norm; }
# trace body without header, task/cpu/time normalised
trc() { grep -v '^#' $TRACING/trace | norm | sed -E 's/^ *[^ ]+-[0-9]+ +\[[0-9]+\] +([^ ]+) +[0-9]+\.[0-9]+:/TASK-PID [CPU] FLAGS TS:/'; }
# error log, times normalised, only the last $1 entries (3 lines each plus command)
elog() { sed -E 's/^\[ *[0-9]+\.[0-9]+\]/[TS]/' $TRACING/error_log | tail -n ${1:-4}; }
elogclr() { $KIO "open:wt:$TRACING/error_log" | grep -v '^open.* ok'; }
# next accepted offset after $2 in function $1 (adds and removes a temporary probe)
nextb() { _i=$(($2+1)); while [ $_i -lt $(($2+16)) ]; do if $KIO "open:wa:$KE" "write:p:zz_nb $1+$_i\n" | grep -q -- '= -1'; then _i=$((_i+1)); else $KIO "open:wa:$KE" 'write:-:zz_nb\n' >/dev/null; echo $_i; return; fi; done; echo none; }
# list lines reduced to symbol and tags, offset removed
tagsonly() { sed -E 's/^ADDR  ([kr])  ([^+ ]+)\+0x[0-9a-f]+ +/\1 \2 /'; }
# has FILE PID WHAT: whether a list of pids has one; me: the pid of who asks; child FILE WHAT: whether it has a child, $k
has() { r=no; while read -r q; do [ "$q" = $2 ] && r=yes; done <$1; echo "$3: $r"; }
me() { read -r me _ </proc/self/stat; }
child() { ( me; has $1 $me "$2" ) & k=$!; wait $k; }
# gone FILE WHAT: whether it has that child yet, when it is to leave it
gone() { i=0; while grep -qx $k $1 && [ $i -lt 300 ]; do sleep 0.01; i=$((i+1)); done; has $1 $k "$2"; }
# live FILE WHAT: the same of one that stays, by the FIFOs $f.a and $f.b, until die
live() { ( me; has $1 $me "$2"; echo >"${f:?}.a"; read -r _ <"$f.b" ) & k=$!; read -r _ <"$f.a"; }
die() { echo >"${f:?}.b"; wait $k; }
