# Functions that a module hooks to trace points, and events with functions for their first user and last: tests/modules/visits_calls.c.
# shellcheck shell=sh disable=SC2086,SC2012,SC2162
# SPDX-License-Identifier: GPL-2.0-or-later
# $KMODULES/visits_calls.ko is built for the kernel that runs this.
cd "${TRACING:-/sys/kernel/tracing}" || exit
G=events/visits-now
V=${DEBUGFS:-/sys/kernel/debug}/visits
log() { cat $V; }
act() { for w in "$@"; do echo $w >$V || echo "$w refused"; done 2>/dev/null; log; }
trace() { grep -v '^#' trace | sed -E 's/^.*-[0-9]+ +\[[0-9]+\] [^ ]+ +[0-9.]+: //'; echo >trace; }
insmod $KMODULES/visits_calls.ko
echo "## formats"
ls $G; cat $G/*/format | sed 's/^ID: .*/ID/'
echo "## records"
act v; echo 1 >$G/visit_note/enable; echo 1 >$G/visit_rel/enable; act v; trace
for f in 'note ~ "42*"' 'who == "a long name"' 'two == "a "' 'who ~ "*b*"' 'note == "42"'; do
    echo "# $f"; for e in note rel; do echo "$f" >$G/visit_$e/filter; done
    act v; trace | cut -c1-30; for e in note rel; do echo 0 >$G/visit_$e/filter; done
done 2>/dev/null
echo 0 >$G/enable; log
echo "## first and last"
act o; echo 1 >$G/visit_fn/enable; log; act o v; trace; echo 1 >$G/visit_class_fn/enable; log; act v; trace
echo 0 >$G/visit_fn/enable; log; act o v; trace; echo 0 >$G/visit_class_fn/enable; log
echo "## an instance"
mkdir instances/b; echo 1 >instances/b/$G/visit_fn/enable; log; echo 1 >$G/visit_fn/enable; log
echo 0 >instances/b/$G/visit_fn/enable; log; echo 0 >$G/visit_fn/enable; log
echo 1 >instances/b/$G/visit_fn/enable; log; rmdir instances/b; log
echo "## a trigger"
echo 'enable_event:visits-now:visit_fn' >$G/visit_rel/trigger; log; cat $G/visit_fn/enable
echo '!enable_event:visits-now:visit_fn' >$G/visit_rel/trigger; log; cat $G/visit_fn/enable
echo "## a refusal"
act f; echo 1 >$G/visit_fn/enable || echo "refused"; log; cat $G/visit_fn/enable
echo 1 >$G/enable || echo "refused"; log; cat $G/enable; act r; act F; echo 0 >$G/enable; log
echo "## functions"
act u; act r; act r; act v; act R; act v; echo 1 >$G/visit_fn/enable; log; act v; trace; act u; act v; act U; act v
echo 0 >$G/visit_fn/enable; log; act U
act b; act v; act B; act v; act l; act v; act L; act c; echo 1 >$G/visit_class_fn/enable; log; act C; act v; trace; echo 0 >$G/visit_class_fn/enable; log
echo "## of the kernel"
act n; act s e; $HIT 5; act n; act S E; $HIT 5; act n
echo "## an event of its own there"
C=events/custom/sys_enter
ls events/custom; sed 's/^ID: .*/ID/' $C/format
echo 'id == 110' >$C/filter; $HIT 3; echo 1 >$C/enable; $HIT 3; echo 0 >$C/enable; $HIT 3; trace | sort -u
echo "## rmmod"
echo 1 >$G/visit_fn/enable; log
rmmod visits_calls; ls -d $G 2>/dev/null
