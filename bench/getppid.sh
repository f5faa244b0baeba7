# SPDX-License-Identifier: GPL-2.0-or-later
# Run in a real kernel: "KIND ns" for a call of getppid(2), unprobed and with an event.
# shellcheck shell=sh disable=SC2154
f=__do_sys_getppid
grep -q " $f\$" /proc/kallsyms || f=__x64_sys_getppid
e=$TRACING/events/kprobes/bench/enable

measure() {
	echo "$2" >"$TRACING/kprobe_events" && echo 1 >"$e" || return 1
	sleep 1
	echo "$1 $(getppid 15)"
	awk '{ print "hits", $2 }' "$TRACING/kprobe_profile"
	echo 0 >"$e"
	echo >"$TRACING/kprobe_events"
}

getppid 3 >/dev/null
echo "base $(getppid 15)"
# the first place behind the entry that becomes a jump
for at in 5 6 7 8 9 10 11 12 13 14 15 16; do
	{ echo "p:bench $f+$at" >"$TRACING/kprobe_events" && echo 1 >"$e"; } 2>/dev/null || continue
	grep -q OPTIMIZED "$KPROBES/list" && found=$at
	echo 0 >"$e"
	echo >"$TRACING/kprobe_events"
	[ -n "$found" ] && break
done
if [ -n "$found" ]; then
	measure optimized "p:bench $f+$found"
	echo 0 >"$SYSCTL"
	measure boosted "p:bench $f+$found"
	echo 1 >"$SYSCTL"
fi
measure ftrace "p:bench $f"
measure return "r:bench $f"
