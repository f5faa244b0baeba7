# Records of synthetic events that a module makes: tests/modules/synth_calls.c through every call it has.
# shellcheck shell=sh disable=SC2086
# SPDX-License-Identifier: GPL-2.0-or-later
# $KMODULES/synth_calls.ko is built for the kernel that runs this. Lines do not show what Linux leaves unwritten.
cd "${TRACING:-/sys/kernel/tracing}" || exit
S=events/synthetic
said=0
# what the module and its calls say
run() {
    insmod $KMODULES/synth_calls.ko what=$* 2>/dev/null || echo "insmod $*: refused"
    rmmod synth_calls 2>/dev/null || echo "rmmod: refused"
    lines=$(dmesg | sed -n 's/.*synth: //p')
    echo "$lines" | tail -n +$((said + 1))
    said=$(echo "$lines" | wc -l)
}
trace() { grep -av '^#' ${1:-trace} | sed -E 's/^.*-[0-9]+ +\[[0-9]+\] ([^ ]+) +[0-9.]+: /\1 /; s/^(.)[Nnp]/\1./; s/=18446[0-9]*/=BIG/' | tr '\0' '0' | sed -E 's/[|]?0x[0-9a-f]+0\)/0)/'; echo > ${1:-trace}; }

echo 's:fired u64 v; s64 lat; pid_t pid; char[8] s; char[] d; u8 small; s8 neg; s16 h; gfp_t g; bool b; char[] e' > dynamic_events
echo 's:plain u64 v; s16 h; char[8] s; int n; gfp_t g' >> dynamic_events
echo > trace
echo "## off"
for what in array varargs short; do run $what; done; trace
echo "## on"
echo 1 > $S/enable
for what in array varargs; do run $what; done; trace
echo 's:stacked long[] st; u64 a; u64 b; int n' >> dynamic_events; echo 1 > $S/stacked/enable; run stack event=stacked; trace; echo 0 > $S/stacked/enable; echo '!stacked' >> synthetic_events
for what in steps names; do run $what event=plain; done; trace
run start; run start event=plain instance=none; run array event=nosuch
trace
echo "## not on"
echo 0 > $S/plain/enable; run start event=plain; trace
echo "## tracing_on 0"
echo 0 > tracing_on; run array; run varargs; echo 'v == 1' > $S/fired/filter; run array; echo 0 > $S/fired/filter; echo 1 > tracing_on; trace
echo "## a wrong number of values"
run short; trace | cut -c1-14
echo "## filter"
for f in 'v > 6' 's == "four" && v == 7' 's == "longer t"' 's == "longer than its field"' 'd ~ "dyn*"' 'e == ""' 'lat < 0' 'neg == -1' 'small == 1' 'h == -2' 'g & 2' 'common_pid == 0'; do
    echo "$f" > $S/fired/filter; echo "# $f"; run array times=3 >/dev/null; run varargs >/dev/null; trace | cut -c1-40
done
echo 0 > $S/fired/filter
echo "## triggers"
for t in traceoff:1 'traceoff if v == 6' stacktrace:1 'stacktrace if v == 9' snapshot disable_event:synthetic:fired 'enable_event:synthetic:plain:1'; do
    echo "# $t"; echo "$t" > $S/fired/trigger; run array times=3; trace | grep -v '^ => [^s]'; cat tracing_on $S/fired/trigger $S/fired/enable $S/plain/enable; echo "!$t" > $S/fired/trigger; echo 1 > tracing_on; echo 1 > $S/fired/enable
done
echo "## off, but with a trigger"
echo 0 > $S/fired/enable; echo 'stacktrace if v == 6' > $S/fired/trigger; run array times=2; trace | grep -v '^ => [^s]'; echo '!stacktrace if v == 6' > $S/fired/trigger
echo traceon > $S/fired/trigger; echo 0 > tracing_on; run array; cat tracing_on; echo '!traceon' > $S/fired/trigger; trace
echo 1 > $S/fired/enable; echo traceon > $S/fired/trigger; echo 0 > tracing_on; run array; cat tracing_on; echo '!traceon' > $S/fired/trigger; trace
echo "## instance"
mkdir instances/i; echo 1 > instances/i/$S/fired/enable; run array instance=i; run varargs; trace; trace instances/i/trace
insmod $KMODULES/synth_calls.ko what=hold instance=i event=plain; rmdir instances/i 2>/dev/null || echo busy; echo '!plain' 2>/dev/null >> synthetic_events || echo busy
(echo > synthetic_events) 2>/dev/null || echo busy; cat synthetic_events; rmmod synth_calls; echo 0 > instances/i/$S/enable; rmdir instances/i
echo "## pids"
echo 1 > set_event_pid; run array; trace; echo > set_event_pid; echo 1 > set_event_notrace_pid; run array; trace; echo > set_event_notrace_pid
echo 0 > $S/enable
echo "## made by the module"
: > error_log; messages=$(dmesg | wc -l)
run make; trace; sed 's/^[[][^]]*] //' error_log; dmesg | tail -n +$((messages + 1)) | grep 'too long' | sed -E 's/^.*[];] *//; s/a{99,}/aaa/'; cat synthetic_events; ls $S
insmod $KMODULES/synth_calls.ko what=make_and_hold event=held; echo 1 > $S/held/enable; ls -d $S/held; rmmod synth_calls 2>/dev/null || echo in use
echo '!held' 2>/dev/null >> synthetic_events || echo busy; echo 0 > $S/held/enable; rmmod synth_calls; [ -d $S/held ] || echo gone
insmod $KMODULES/synth_calls.ko what=make_and_hold event=held; echo '!held' >> synthetic_events; rmmod synth_calls; dmesg | grep 'synth: ' | tail -n 4 | sed 's/.*synth: //'
echo "## deleted with records"
said=$(dmesg | grep -c 'synth: '); echo > trace; echo 1 > $S/fired/enable; run array
echo 0 > $S/fired/enable; echo '!fired' >> synthetic_events; grep -c Unknown trace
insmod $KMODULES/synth_calls.ko what=start event=plain; grep -c Unknown trace; rmmod synth_calls
grep -c Unknown trace
echo > dynamic_events
