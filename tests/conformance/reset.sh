# shellcheck shell=sh disable=SC2086,SC2231 # paths without blanks
# SPDX-License-Identifier: GPL-2.0-or-later
T=$TRACING
for d in $T/instances/*; do [ -d $d ] && { echo 0 > $d/events/enable; rmdir $d; }; done 2>/dev/null
echo 0 > $T/events/enable 2>/dev/null
echo > $T/dynamic_events 2>/dev/null
[ -s $T/dynamic_events ] && echo "RESET FAIL" && cat $T/dynamic_events
echo 1 > $T/tracing_on; echo > $T/set_event 2>/dev/null; echo nop > $T/current_tracer; echo > $T/trace; : > $T/error_log
echo 1 > $KPROBES/enabled; echo 1 > $SYSCTL
