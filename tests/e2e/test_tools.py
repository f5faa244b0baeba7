# SPDX-License-Identifier: GPL-2.0-or-later
"""Tools that people have, unmodified, under ``kpfs run``."""

import os
import re
import shlex
import shutil

import pytest

from tests.harness import ROOT

pytestmark = [pytest.mark.fuse, pytest.mark.guest]

PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"


def needs(program, package):
    """Skip where a program is not installed."""
    missing = not shutil.which(program, path=PATH)
    return pytest.mark.skipif(
        missing, reason=f"{program} is not installed (Debian: {package})"
    )


@pytest.fixture
def sh(kpfs):
    """Runs a script; what it prints.  Everything in it must succeed."""

    def run(script, *options, **more):
        env = {**os.environ, "PATH": PATH, **more}
        done = kpfs("run", *options, "--", "bash", "-ec", script, env=env)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    return run


KNOB = "debug.kprobes-optimization"
SYSCTLS = [
    pytest.param("sysctl", marks=needs("sysctl", "procps")),
    pytest.param("busybox sysctl", marks=needs("busybox", "busybox-static")),
]


@pytest.mark.parametrize("sysctl", SYSCTLS)
def test_sysctl(sh, tmp_path, sysctl):
    (tmp_path / "on.conf").write_text(f"# a comment\n{KNOB} = 1\n")
    lines = sh(f"""
    {sysctl} {KNOB}; {sysctl} -w {KNOB}=0; {sysctl} -n {KNOB}
    {sysctl} -p {tmp_path}/on.conf; cat /proc/sys/debug/kprobes-optimization
    {sysctl} -a 2>/dev/null | grep kprobes
    """).splitlines()
    assert lines == [
        *(f"{KNOB} = 1", f"{KNOB} = 0", "0"),
        *(f"{KNOB} = 1", "1"),
        f"{KNOB} = 1",
    ]


@pytest.mark.parametrize("sysctl", SYSCTLS)
def test_sysctl_with_a_wrong_value(kpfs, sysctl):
    script = f"PATH={PATH}; {sysctl} -w {KNOB}=2; echo $?; {sysctl} -n {KNOB}"
    done = kpfs.sh(script)
    assert done.stdout.splitlines()[-2:] == ["1", "1"]
    assert "Invalid argument" in done.stderr


@needs("sysctl", "procps")
def test_sysctl_by_pattern(sh):
    assert sh("sysctl -a --pattern kprobes") == f"{KNOB} = 1\n"


@needs("sysctl", "procps")
def test_sysctl_as_the_documentation_has_it(sh):
    script = "sysctl -w debug.kprobes_optimization=n; sysctl -a --pattern kprobes"
    lines = sh(script, "--config", "DOCUMENTED_SYSCTL=y").splitlines()
    name = "debug.kprobes_optimization"
    assert lines == [f"{name} = n", f"{KNOB} = 0", f"{name} = 0"]


# Another process of the run opens a file over and over.
BUSY = "(while :; do cat {file}; sleep 0.02; done >/dev/null 2>&1) & busy=$!\n"
# The lock of these scripts is one for the whole machine, but not ours.
PERF_TOOLS = "mount -t tmpfs none /var/tmp\n"


@pytest.fixture
def perf_tools(sh, tmp_path):
    """Runs a script of perf-tools while a file is being opened; what it prints."""
    (tmp_path / "seen").write_text("x")

    def run(command):
        busy = BUSY.format(file=tmp_path / "seen")
        return sh(f"{PERF_TOOLS}{busy}{command} 2>&1; kill $busy")

    return run


@needs("kprobe-perf", "perf-tools-unstable")
def test_kprobe_shows_the_files_that_others_open(perf_tools, tmp_path):
    probe = "p:open do_sys_openat2 +0(%si):ustring"
    shown = perf_tools(f"kprobe-perf -d 0.5 '{probe}'")
    line = r"cat-\d+ +\[00\d\] .*: open: \(do_sys_openat2\+0x0/0x[0-9a-f]+\) "
    assert re.search(rf'{line}arg1="{tmp_path}/seen"', shown)


@needs("kprobe-perf", "perf-tools-unstable")
def test_kprobe_until_it_is_interrupted(perf_tools, tmp_path):
    """The script reads trace_pipe, and takes its probe away at the end."""
    probe = "r:got vfs_read ret=$retval:s64"
    events = "/sys/kernel/debug/tracing/kprobe_events"
    out = tmp_path / "out"
    # a job in the background would ignore the signal, but for timeout
    shown = perf_tools(f"""
    >{out}; timeout 100 kprobe-perf '{probe}' >{out} 2>&1 & perf=$!
    until grep -q 'cat-.* got: ' {out}; do sleep 0.02; done
    kill -INT $perf; wait $perf || :
    cat {out} {events}; echo end""")
    assert re.search(r"cat-\d+ .*: got: \(\w+_read\+.* <- vfs_read\) ret=\d+\n", shown)
    assert shown.endswith("\nend\n")
    assert "ERROR" not in shown


@needs("funccount-perf", "perf-tools-unstable")
def test_funccount(perf_tools):
    shown = perf_tools("funccount-perf -d 1 'vfs_*'")
    counts = dict(re.findall(r"^(vfs_\w+) +(\d+)$", shown, re.M))
    assert int(counts["vfs_open"]) > 0
    assert int(counts["vfs_read"]) > 0
    assert "ERROR" not in shown


@needs("functrace-perf", "perf-tools-unstable")
def test_functrace(perf_tools):
    shown = perf_tools("functrace-perf -d 0.5 'vfs_op*'")
    assert re.search(r"cat-\d+ +\[00\d\] .*: vfs_open <-do_open\n", shown)
    assert "ERROR" not in shown


@needs("trace-cmd", "trace-cmd")
def test_trace_cmd(sh, tmp_path):
    (tmp_path / "seen").write_text("x")
    shown = sh(f"""
    cd /sys/kernel/tracing
    echo 'p:e do_sys_openat2 path=+0(%si):ustring' >kprobe_events
    trace-cmd list -e kprobes
    trace-cmd start -e kprobes:e
    cat events/kprobes/e/enable {tmp_path}/seen
    echo
    trace-cmd stop
    cat tracing_on events/kprobes/e/enable
    trace-cmd show
    trace-cmd reset
    cat tracing_on kprobe_events
    """)
    assert shown.startswith("kprobes:e\n1\nx\n0\n1\n# tracer: nop\n")
    assert re.search(rf' cat-\d+ .* e: \(do_sys.*\) path="{tmp_path}/seen"\n', shown)
    assert shown.endswith("\n1\n")


@needs("trace-cmd", "trace-cmd")
def test_trace_cmd_with_the_function_tracer(sh):
    shown = sh("""
    trace-cmd start -p function -l vfs_open 2>&1
    cat /dev/null
    trace-cmd show
    trace-cmd stat
    trace-cmd reset
    cat /sys/kernel/tracing/current_tracer
    """)
    assert re.search(r" cat-\d+ .*: vfs_open <-do_open\n", shown)
    assert "Tracer: function" in shown
    assert shown.endswith("\nnop\n")


@needs("perf", "linux-perf")
def test_perf_probe(sh, tmp_path):
    """perf caches symbols in HOME: nothing is left in the user's."""
    script = """
    perf probe -q --add vfs_read
    perf probe -q --add 'opened=do_sys_openat2 name=+0(%si):ustring'
    perf probe -l
    echo 1 >/sys/kernel/tracing/events/probe/opened/enable
    cat /dev/null
    grep -c 'opened: .*name="/dev/null"' /sys/kernel/tracing/trace
    echo 0 >/sys/kernel/tracing/events/probe/opened/enable
    perf probe -q --del vfs_read
    perf probe -l
    perf probe -q --del 'probe:*'
    cat /sys/kernel/tracing/kprobe_events
    echo end
    """
    lines = sh(script, HOME=str(tmp_path)).splitlines()
    opened = "  probe:opened         (on do_sys_openat2@src/fs/open.c with name)"
    assert lines[0] == opened
    assert lines[1] == "  probe:vfs_read       (on vfs_read@src/fs/read_write.c)"
    assert int(lines[2]) > 0
    assert lines[3:] == [opened, "end"]
    assert list(tmp_path.glob(".*")) == []


@needs("perf", "linux-perf")
def test_perf_probe_knows_variables_and_lines(sh):
    script = """
    perf probe -V vfs_read
    perf probe -q --add 'vfs_read count'
    perf probe -q --add 'vfs_open name=path->dentry->d_iname:string'
    cat /sys/kernel/tracing/kprobe_events
    echo 1 >/sys/kernel/tracing/events/probe/enable
    head -c 77 /dev/zero >/dev/null
    echo 0 >/sys/kernel/tracing/events/probe/enable
    grep -c 'vfs_open: .*name="zero"' /sys/kernel/tracing/trace
    grep -c 'vfs_read: .*count=0x4d$' /sys/kernel/tracing/trace
    perf probe -q --del 'probe:*'
    perf probe -L vfs_read
    """
    lines = sh(script).splitlines()
    assert lines[:2] == ["Available variables at vfs_read", "\t@<vfs_read+0>"]
    variables = ["char*\tbuf", "loff_t*\tpos", "size_t\tcount", "struct file*\tfile"]
    assert [line.strip() for line in lines[2:6]] == variables
    read = r"p:probe/vfs_read _text\+\d+ count=%dx:x64"
    opened = r"p:probe/vfs_open _text\+\d+ name=\+\d+\(\+\d+\(%di\)\):string"
    assert re.fullmatch(read, lines[6])
    assert re.fullmatch(opened, lines[7])
    assert [int(count) > 0 for count in lines[8:10]] == [True, True]
    source = ROOT / "guest/src/fs/read_write.c"
    assert lines[10] == f"<vfs_read@{source}:0>"
    assert lines[11].endswith(
        "  0  ssize_t vfs_read(struct file *file, char __user *buf,"
        " size_t count, loff_t *pos)"
    )


@needs("bpftrace", "bpftrace")
def test_bpftrace_lists_functions(sh):
    names = sh("bpftrace -l 'kprobe:vfs_*'").split()
    functions = sh(
        "grep ^vfs_ /sys/kernel/tracing/available_filter_functions"
    ).splitlines()
    assert "kprobe:vfs_read" in names
    assert sorted(names) == sorted({f"kprobe:{f}" for f in functions})


def test_dmesg(sh):
    shown = sh("sysctl -q -w debug.kprobes-optimization=0; dmesg")
    assert re.search(r"^\[ +0\.\d{6}\] Linux version 6\.1", shown)
    assert "kprobes: kprobe jump-optimization is disabled." in shown.splitlines()[-1]


@needs("dmesg", "util-linux")
def test_dmesg_of_util_linux(sh):
    own = shutil.which("dmesg", path="/bin:/usr/bin")
    shown = sh(f"echo '<6>hello' >/dev/kmsg; {own}")
    assert re.search(r"^\[ +\d+\.\d{6}\] hello$", shown, re.M)
    # what ours does not know it does
    shown = sh("echo '<6>hello' >/dev/kmsg; dmesg --decode --notime")
    assert re.search(r"^kern +:info +: hello$|^user +:info +: hello$", shown, re.M)
    shown = sh("dmesg -l loud 2>&1 || echo $?; dmesg --no-such 2>&1 || echo $?")
    said, status, unknown, *_, last = shown.splitlines()
    assert (said, status, last) == ("dmesg: unknown level 'loud'", "1", "1")
    assert unknown == "dmesg: unrecognized option '--no-such'"


def test_the_mount_table_has_tracefs(sh):
    """Tools find it by type and by name, at the place that Linux has first."""
    shown = sh("""
    awk '$3 == "tracefs" || $3 == "debugfs" { print $1, $2, $3 }' /proc/mounts
    grep tracefs /proc/mounts | head -n 1 | cut -d' ' -f2
    mount -t tmpfs mine /mnt; grep -c '^mine /mnt tmpfs' /proc/mounts
    """)
    assert shown.splitlines() == [
        "debugfs /sys/kernel/debug debugfs",
        "tracefs /sys/kernel/tracing tracefs",
        "tracefs /sys/kernel/debug/tracing tracefs",
        "/sys/kernel/tracing",
        "1",
    ]


def test_ls_and_df_and_mount(sh):
    shown = sh("""
    ls -l /sys/kernel/tracing/kprobe_events /sys/kernel/debug/kprobes/list |
        cut -d' ' -f1-5
    df /sys/kernel/tracing | tail -n 1
    mount | grep -c ' /sys/kernel/tracing '
    cat /proc/version
    """).splitlines()
    assert shown[:2] == ["-r-------- 1 root root 0", "-rw-r----- 1 root root 0"]
    assert shown[2].endswith(" /sys/kernel/tracing")
    assert shown[3] == "1"
    assert shown[4].startswith("Linux version 6.1")


@pytest.mark.user
@needs("sysctl", "procps")
@needs("trace-cmd", "trace-cmd")
def test_as_an_ordinary_user(ordinary):
    script = f"""
    sysctl -w {KNOB}=0
    trace-cmd start -e sched:sched_process_fork
    (:)
    trace-cmd stop
    trace-cmd show | grep -c "sched_process_fork: comm=sh "
    trace-cmd reset
    """
    done = ordinary(f"$kpfs run -- sh -ec {shlex.quote(script)}")
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert lines[0] == f"{KNOB} = 0"
    assert int(lines[1]) > 0
