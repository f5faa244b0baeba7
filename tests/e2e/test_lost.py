# SPDX-License-Identifier: GPL-2.0-or-later
"""Commands say at their end what the kernel has lost, each with its cause.

Tests kpfs.base.losses, kpfs.backends.guest.losses, kpfs.linux.running.losses,
kpfs.linux.memory.losses and kpfs.linux.board.losses.
"""

import json
import re
import sys

import pytest

import kpfs
from kpfs.base import losses
from tests import harness
from tests.programs import static_program

KERNEL = harness.KERNEL
RETURNS = """
echo 'r1:lost schedule' >kprobe_events
echo 1 >events/kprobes/enable
sleep 0.1 & sleep 0.1 & sleep 0.1 & wait
echo 0 >events/kprobes/enable
echo >kprobe_events
"""
# a handler that calls a probed function
NESTED = """
echo 'p:outer do_sys_openat2 name=+0($stack):string' >kprobe_events
echo 'p:inner strncpy_from_kernel_nofault' >>kprobe_events
echo 1 >events/kprobes/enable
cat /dev/null
echo 0 >events/kprobes/enable
echo >kprobe_events
"""
FILL = """
echo 4 >buffer_size_kb
i=0
while [ $i -lt 150 ]; do echo 'a marker that takes some room of the ring'; i=$((i+1))
done >trace_marker
"""
CLEARED = f"{FILL} echo >trace"
INSTANCE = (
    f"mkdir instances/own; cd instances/own; {FILL} cd ../..; rmdir instances/own"
)
NO_OVERWRITE = f"echo 0 >options/overwrite; {FILL} echo 1 >options/overwrite"
LEFT = "seq 9 >trace_marker; dd bs=70 count=1 if=trace_pipe 2>/dev/null >/dev/null"
NUMBER = r"[1-9]\d*"
IN_USE = r"all instances were in use \(maxactive=1\)"
CAUSES = {
    "returns": (
        RETURNS,
        rf"return probe of schedule: {NUMBER} returns? missed: {IN_USE}",
    ),
    "nested": (
        NESTED,
        rf"probe of strncpy_from_kernel_nofault: {NUMBER} hits? skipped",
    ),
    "ring": (FILL, rf"trace: {NUMBER} records overwritten"),
    "instance": (INSTANCE, rf"instances/own: {NUMBER} records overwritten"),
    "overwrite": (NO_OVERWRITE, rf"trace: {NUMBER} records refused"),
    "cleared": (CLEARED, rf"trace: {NUMBER} records overwritten"),
    "pipe": (LEFT, rf"trace: {NUMBER} records? lost: a reader of trace_pipe"),
}
# as many as one run can tell apart: "cleared" is told as "ring" is, and comes last
TOLD_APART = [[name for name in CAUSES if name != "cleared"], ["cleared"]]
KERNELS = [
    *(harness.on(KERNEL, names) for names in TOLD_APART),
    pytest.param(
        *("", ["returns", "instance", "overwrite", "cleared"]), marks=pytest.mark.guest
    ),
    harness.on(harness.TWO_CPUS, CAUSES),
    harness.on(harness.ARM64, CAUSES),
    # where a function begins, it takes no probes: see linux/README.md
    harness.on(harness.RISCV64, ["instance", "overwrite", "pipe", "cleared"]),
]

EACH = [pytest.param("", marks=pytest.mark.guest), harness.on(KERNEL)]
each_kind = pytest.mark.parametrize("kernel", EACH)


def of(kernel):
    return ("--kernel", kernel) if kernel else ()


def lost(text):
    """Return what is said to be lost."""
    return [line[12:] for line in text.splitlines() if line.startswith("kpfs: lost: ")]


def script(*names):
    return "cd /sys/kernel/tracing\n" + "\n".join(CAUSES[name][0] for name in names)


@pytest.mark.fuse
@pytest.mark.parametrize(("kernel", "causes"), KERNELS)
def test_the_end_of_run(kpfs, kernel, causes):
    done = kpfs("run", *of(kernel), "--", "sh", "-c", script(*causes))
    for cause in causes:
        assert any(re.match(CAUSES[cause][1], line) for line in lost(done.stderr)), (
            cause,
            done.stderr,
        )


@pytest.mark.kernel
@pytest.mark.parametrize("causes", TOLD_APART, ids=" ".join)
def test_the_end_of_a_run_inside(kpfs, causes):
    done = kpfs("run", "--kernel", KERNEL, "--inside", "sh", "-c", script(*causes))
    assert done.returncode == 0
    lines = lost(done.stderr)
    told = [[name for name in causes if re.match(CAUSES[name][1], it)] for it in lines]
    assert sorted(told) == sorted([name] for name in causes), lines


OF_PROGRAMS = {
    "guard": "BPF program skipped: 7 runs skipped: BPF was busy",
    "ring": "BPF ring buffer records: 8 records lost",  # one that is full has room
    "perf": "perf: 8 events lost",
}
PROGRAMS = [
    *(harness.on(KERNEL, kind) for kind in OF_PROGRAMS),
    *(
        harness.on(harness.TWO_CPUS, kind, marks=[*marks])
        for kind, *marks in (
            *((kind, pytest.mark.long) for kind in OF_PROGRAMS),
            ("multi",),
        )
    ),
]


@pytest.mark.parametrize(("kernel", "kind"), PROGRAMS)
def test_what_bpf_and_perf_lose(kpfs, kernel, kind):
    losing = str(harness.ROOT / "tests" / "programs" / "losing.py")
    words = (
        "run",
        "--kernel",
        kernel,
        "--inside",
        sys.executable,
        "-IS",
        losing,
        kind,
        "7",
    )
    (line,) = lost(kpfs(*words).stderr)
    assert line.startswith(OF_PROGRAMS.get(kind, OF_PROGRAMS["guard"]))


@pytest.mark.kernel
def test_hits_while_ftrace_is_off(kpfs):
    """One probe is there before, one comes meanwhile; one is no entry of a function."""
    script = """
    cd /sys/kernel/tracing
    echo 'p:before do_nanosleep' >kprobe_events
    echo 'p:behind do_nanosleep+5' >>kprobe_events
    echo 1 >events/kprobes/enable
    sleep 0.001
    echo 0 >/proc/sys/kernel/ftrace_enabled
    echo 'p:meanwhile __x64_sys_times' >>kprobe_events
    echo 1 >events/kprobes/meanwhile/enable
    sleep 0.001; sleep 0.001; times >/dev/null
    echo 1 >/proc/sys/kernel/ftrace_enabled
    sleep 0.001
    cat kprobe_profile
    """
    done = kpfs("run", "--kernel", KERNEL, "--inside", "sh", "-c", script)
    hits = {row.split()[0]: row.split()[1] for row in done.stdout.splitlines()}
    assert hits == {"before": "2", "behind": "4", "meanwhile": "0"}
    off = "it needs ftrace, and kernel.ftrace_enabled was 0"
    assert lost(done.stderr) == [
        f"probe of do_nanosleep: 2 hits missed: {off}",
        f"probe of __x64_sys_times: 1 hit missed: {off}",
    ]


@pytest.mark.fuse
@pytest.mark.parametrize("kernel", [*EACH, harness.on(harness.I386)])
def test_probes_that_are_disarmed(kpfs, kernel):
    script = """
    echo p:a vfs_open >/sys/kernel/tracing/kprobe_events
    echo 0 >/sys/kernel/debug/kprobes/enabled
    """
    done = kpfs("run", *of(kernel), "--", "sh", "-c", script)
    assert lost(done.stderr) == ["all hits of 1 probe: kprobes/enabled is 0"]


@pytest.mark.kernel
def test_the_maxactive_that_is_told_suffices(kpfs):
    """Three tasks sleep at once: with so many instances nothing is missed."""
    sleep = """
    cd /sys/kernel/tracing
    echo "r$1:slept do_nanosleep" >kprobe_events
    echo 1 >events/kprobes/enable
    sleep 1 & sleep 1 & sleep 1 & wait
    grep -c slept: trace
    """

    def run(maxactive):
        inside = "run", "--kernel", KERNEL, "--inside", "--quiet-guest"
        done = kpfs(*inside, "sh", "-c", sleep, "sh", maxactive)
        return int(done.stdout), lost(done.stderr)

    seen, (line,) = run("1")
    assert seen == 1
    told = re.search(r"2 returns missed.*; maxactive=(\d+) would do$", line)
    assert told, line
    assert run(told[1]) == (3, [])


@pytest.mark.kernel
def test_a_row_of_matrix(kpfs, tmp_path):
    report = tmp_path / "report.xml"
    words = "matrix", "--kernels", KERNEL, "--junit", report
    command = "--", "sh", "-c", script("ring")
    done = kpfs(*words, *command)
    told = rf"^ +lost: {CAUSES['ring'][1]}"
    assert re.search(told, done.stdout, re.M), done.stdout
    assert re.search(rf"<system-err>lost: {CAUSES['ring'][1]}", report.read_text())
    assert not lost(done.stderr)
    (row,) = json.loads(kpfs(*words, "--json", *command).stdout)
    (line,) = row["lost"]
    assert re.match(CAUSES["ring"][1], line)


@pytest.mark.fuse
@each_kind
def test_the_end_of_trace(kpfs, kernel):
    done = kpfs("trace", *of(kernel), "--", "sh", "-c", script("ring"))
    assert [line for line in lost(done.stderr) if re.match(CAUSES["ring"][1], line)]


@pytest.mark.fuse
@each_kind
def test_nothing_is_said_when_nothing_is_lost(kpfs, kernel):
    traced = """
    cd /sys/kernel/tracing
    echo 'r:one vfs_open' >kprobe_events
    echo 1 >events/kprobes/enable
    cat /etc/hostname
    """
    done = kpfs("run", *of(kernel), "--", "sh", "-c", traced)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.kernel
@pytest.mark.parametrize(
    ("module", "told"),
    [("", True), pytest.param("+lsm=bpf", False, marks=pytest.mark.slow)],
)
def test_programs_of_a_security_module_that_was_not_started(
    kpfs, tmp_path, module, told
):
    program = static_program("bpf", tmp_path)
    words = "run", "--kernel", f"{KERNEL}{module}", "--make", "--inside", "--"
    done = kpfs(*words, program, "lsm")
    hits = "FAILED lsm: 0 hits instead of 100\n" if told else "ok lsm\n"
    assert (done.stdout, done.returncode) == (hits, int(told))
    assert (f"kpfs: lost: {losses.UNCALLED_LSM}\n" in done.stderr) == told
    done = kpfs(*words, program, "lsm", "load")
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


@each_kind
def test_in_python(kernel):
    with kpfs.Kernel(kernel=kernel) as k:
        assert k.lost() == []
        k.write("tracing/kprobe_events", "p:lost vfs_read")
        k.write("tracing/events/kprobes/lost/enable", "1")
        k.write("kprobes/enabled", "0")
        assert k.lost() == ["all hits of 1 probe: kprobes/enabled is 0"]
        k.write("kprobes/enabled", "1")
        assert k.lost() == []


@pytest.mark.fuse
@pytest.mark.guest
def test_top_for_programs(kpfs):
    script = """
    echo p:a vfs_open >/sys/kernel/tracing/kprobe_events
    echo 0 >/sys/kernel/debug/kprobes/enabled
    kpfs top --json --interval 0.1
    """
    done = kpfs("run", "--", "sh", "-c", script)
    assert json.loads(done.stdout)
    assert "lost: all hits of 1 probe: kprobes/enabled is 0\n" in done.stderr
