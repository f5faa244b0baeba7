# SPDX-License-Identifier: GPL-2.0-or-later
"""Tools that people have, and what tracefs of a distribution's kernel can do more."""

import os
import re

import pytest

from tests import harness
from tests.e2e.test_tools import KNOB, PATH, needs

pytestmark = [pytest.mark.fuse, pytest.mark.kernel, pytest.mark.long]

RUN = "run", "--kernel", harness.KERNEL, "--", "bash", "-ec"
CAT = "cat /etc/hostname >/dev/null"


@pytest.fixture
def sh(kpfs, tmp_path):
    """Runs a script below tracefs; what it prints.  Everything must succeed."""

    def run(script):
        env = {**os.environ, "PATH": PATH, "HOME": str(tmp_path)}
        script = f"cd /sys/kernel/tracing\n{script}"
        done = kpfs(*RUN, script, env=env, timeout=150)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    return run


@needs("sysctl", "procps")
def test_sysctl(sh):
    script = f"sysctl -w {KNOB}=0; cat /proc/sys/debug/kprobes-optimization"
    assert sh(script) == f"{KNOB} = 0\n0\n"


@needs("trace-cmd", "trace-cmd")
def test_trace_cmd_records_and_reports(sh, tmp_path):
    shown = sh(f"""
    echo 'p:mine do_sys_openat2 file=+0(%si):ustring' >kprobe_events
    trace-cmd record -q -o {tmp_path}/dat -e kprobes:mine -e sched_switch {CAT} 2>&1
    trace-cmd report -i {tmp_path}/dat
    """)
    assert re.search(r'cat-\d+ .* mine: .* file="/etc/hostname"', shown)
    assert re.search(r"sched_switch: +\w+:\d+ \[\d+\] \w ==> cat:\d+", shown)


@needs("perf", "linux-perf")
def test_perf_probe(sh):
    shown = sh("""
    perf probe -q --add 'opened=do_sys_openat2 name=+0(%si):ustring'
    perf probe -l
    cat kprobe_events
    perf probe -q --del 'probe:*'
    cat kprobe_events
    """)
    assert re.search(r"^ *probe:opened +\(on do_sys_openat2 with name\)$", shown, re.M)
    assert shown.count("p:probe/opened _text+") == 1


@needs("kprobe-perf", "perf-tools-unstable")
def test_kprobe_of_perf_tools(sh):
    shown = sh(f"""
    mount -t tmpfs none /var/tmp
    (while :; do {CAT}; sleep 0.02; done) & busy=$!
    kprobe-perf -d 1 'p:open do_sys_openat2 +0(%si):ustring' 2>&1
    kill $busy
    """)
    assert re.search(r'cat-\d+ +\[000\] .*: open: .* arg1="/etc/hostname"', shown)


@needs("bpftrace", "bpftrace")
def test_bpftrace_lists_functions(sh):
    names = sh("bpftrace -l 'kprobe:vfs_rea*'").split()
    assert {"kprobe:vfs_read", "kprobe:vfs_readv"} <= set(names)


def test_a_histogram(sh):
    shown = sh(f"""
    echo 'hist:keys=next_comm:sort=hitcount' >events/sched/sched_switch/trigger
    {CAT}
    cat events/sched/sched_switch/hist
    """)
    assert re.search(r"\{ next_comm: cat +\} hitcount: +[1-9]", shown)


def test_the_graph_of_functions(sh):
    shown = sh(f"""
    echo ksys_read >set_graph_function
    echo function_graph >current_tracer
    {CAT}
    echo 0 >tracing_on
    cat trace
    """)
    assert re.search(r"^ 0\) .*\|  ksys_read\(\) \{$", shown, re.M)
    assert re.search(r"^ 0\) .*\|    vfs_read\(\) \{$", shown, re.M)


def test_an_event_probe(sh):
    shown = sh(f"""
    echo 'e:mine sched/sched_switch to=$next_pid:u32' >dynamic_events
    echo 1 >events/eprobes/mine/enable
    {CAT}
    echo 0 >events/eprobes/mine/enable
    cat dynamic_events trace
    """)
    assert "e:eprobes/mine sched.sched_switch to=$next_pid:u32\n" in shown
    assert re.search(r": mine: \(sched\.sched_switch\) to=\d+$", shown, re.M)
