# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel sees the system calls of a command, call by call.

Tests kpfs.mirror.calls, kpfs.backends.linux.mirror.
"""

import os
import sys
from pathlib import Path

import pytest

from tests import harness

pytestmark = [pytest.mark.fuse]

ROOT = Path(__file__).parents[2]
TIMES = "4"
ALWAYS = ("--mirror=always",)


def made(kpfs, calls, *options):
    """Return what a kernel sees of these calls: name -> how often, and results."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    program = "-m", "tests.programs.calls", TIMES, calls
    command = "run", *options, "--", sys.executable, *program
    done = kpfs(*command, env=environment, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    lines = (line.partition(" ") for line in done.stdout.splitlines())
    return {name: rest for name, _, rest in lines}


@pytest.mark.kernel
@pytest.mark.long
def test_a_linux_kernel_sees_each_call(kpfs):
    """The kernel sees the calls and results that it sees of a program of its own."""
    kernel = "--kernel", harness.KERNEL
    always = made(kpfs, "linux", *kernel, *ALWAYS)
    assert len(always) > 50
    assert {line.split()[0] for line in always.values()} == {TIMES}
    assert always == made(kpfs, "linux", *kernel, "--inside")
    watched = made(kpfs, "watched", *kernel)
    assert {line.split()[0] for line in watched.values()} == {TIMES}


@pytest.mark.guest
@pytest.mark.parametrize("options", [(), ALWAYS], ids=["watched", "always"])
def test_the_guest_kernel_sees_each_call_that_it_has(kpfs, options):
    seen = made(kpfs, "guest", "--quiet-guest", *options)
    often = {name: line.split()[0] for name, line in seen.items()}
    assert often.pop("sched_yield") == (TIMES if options else "0")
    assert set(often.values()) == {TIMES}
    results = {name: line.partition(" ")[2] for name, line in seen.items()}
    assert {results[name] for name in ("kill", "nanosleep", "sync", "F_SETFL")} == {"0"}
    assert results["pwrite64"] == "3"


SILENT = {
    "sched/sched_process_exec": ["sched_process_exec does not fire: "],
    "signal": ["signal_generate misses ", "signal_deliver misses "],
    "sched/sched_switch": [],
}
TOLD = [
    *(harness.on(harness.KERNEL, events) for events in SILENT),
    harness.on(harness.KERNEL, "exceptions/page_fault_user"),
    *(harness.on(harness.ARMHF, events) for events in SILENT),  # which has no BTF
]


@pytest.mark.parametrize(("kernel", "events"), TOLD)
def test_a_user_is_told_which_events_programs_do_not_set_off(kpfs, kernel, events):
    """Files of programs have no contents, and signals and memory are the host's."""
    script = f"""
cd /sys/kernel/tracing
/bin/true
echo 1 >events/{events}/enable
/bin/true
/bin/true
grep -cE '(sched_process_exec|signal_.*|page_fault_user):' trace
"""
    done = kpfs("run", "--kernel", kernel, "--", "sh", "-c", f"{script}exit 0")
    assert done.stdout == "0\n"
    lines = done.stderr.splitlines()
    wanted = SILENT.get(events, ["page_fault_user misses programs: "])
    assert len(lines) == len(wanted)
    for line, begin in zip(lines, wanted, strict=True):
        assert line.startswith(f"kpfs: {begin}")


KERNELS = [(), pytest.param(("--kernel", harness.TWO_CPUS), marks=pytest.mark.two_cpus)]


@pytest.mark.parametrize("place", KERNELS, ids=["guest", "linux"])
@pytest.mark.skipif(
    not {0, 1} <= os.sched_getaffinity(0), reason="needs CPUs 0 and 1 to pin to"
)
def test_a_pinned_thread_runs_on_its_cpu(kpfs, place):
    """Calls and writes to files are made on the CPU that the thread chose last."""
    program = """
import os, threading
TRACING = "/sys/kernel/tracing/"
def turn(file):
    for _ in range(3):
        for cpu in (0, 1, 1, 0):
            os.sched_setaffinity(0, {cpu})
            if not os.fork():  # which inherits that
                os.getppid()
                os._exit(0)
            os.wait()
            os.getppid()
            os.write(file, b"from %d" % cpu)
with open(TRACING + "events/syscalls/sys_enter_getppid/enable", "w") as file:
    file.write("1")
file = os.open(TRACING + "trace_marker", os.O_WRONLY)
turn(file)
thread = threading.Thread(target=turn, args=(file,))
thread.start()
thread.join()
with open(TRACING + "events/syscalls/sys_enter_getppid/enable", "w") as file:
    file.write("0")
for cpu in (0, 1):
    with open(TRACING + f"per_cpu/cpu{cpu}/trace") as file:
        text = file.read()
    print(*(text.count(word) for word in ("sys_getppid(", "from 0", "from 1")))
"""
    python = sys.executable, "-W", "ignore::DeprecationWarning"  # it forks in a thread
    done = kpfs("run", *place, "--", *python, "-Sc", program)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["24 12 0", "24 0 12"]
