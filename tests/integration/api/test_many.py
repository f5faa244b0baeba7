# SPDX-License-Identifier: GPL-2.0-or-later
"""Many kernels in one process: closed ones leave nothing, too many are refused.

Each test has a process of its own, in which the garbage collector is off. This tests
kpfs.emulator.libunicorn and kpfs.base.mapping.
"""

import re
import subprocess
import sys

import pytest

from tests import harness

COUNT = 12
GIB = 1 << 30
BEGIN = """
import gc, os, re, resource, sys, threading
import kpfs
gc.disable()
kernel, limit, number = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
if limit:
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def held():
    status = open("/proc/self/status").read()
    size = int(re.search(r"VmSize:\\s*(\\d+)", status)[1]) >> 10
    return size, len(os.listdir("/proc/self/fd")), threading.active_count()
"""
CLOSE = """
first = None


def walk():
    raise AssertionError("all objects of the process are looked at")


gc.get_objects = walk  # millions of them may be somebody else's
for _ in range(number):
    k = kpfs.Kernel(kernel=kernel)
    assert k.read("version").startswith("Linux version")
    if "riscv64" not in kernel:  # which refuses probes at functions' beginnings
        k.write("tracing/kprobe_events", "p:e vfs_read\\nr:r vfs_read $retval\\n")
        k.write("tracing/events/kprobes/enable", "1")
        k.write("tracing/events/kprobes/r/filter", "arg1 > 0")
        k.write("tracing/events/kprobes/e/trigger", "stacktrace:1")
        k.write("tracing/set_event_pid", "1 2 3")
    k.read("version")
    state = k.snapshot()
    k.restore(state)
    list(k.trace())
    k.close()
    first = first or held()
print(*first, *held())
"""
KEEP = """
kept = []
try:
    for _ in range(number):
        kept.append(kpfs.Kernel(kernel=kernel))
except kpfs.SetupError as error:
    print(error)
assert all(k.read("version").startswith("Linux version") for k in kept)
print(len(kept))
"""


def run(what, kernel, *, limit=0, number=COUNT):
    """Run Python code; return what it has printed."""
    command = [sys.executable, "-c", BEGIN + what, kernel, str(limit), str(number)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=harness.TIMEOUT, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


KERNELS = [
    "",
    *harness.on_each((harness.KERNEL, harness.ARM64, harness.RISCV64)),
]


@pytest.mark.parametrize("kernel", KERNELS)
def test_closed_kernels_leave_nothing(kernel):
    """All of them together would not fit into the limit, so they make room, too."""
    size, files, threads, *last = map(int, run(CLOSE, kernel, limit=4 * GIB).split())
    assert last[1:] == [files, threads]
    assert last[0] < size + 4 * COUNT  # MiB: objects of Python alone


@pytest.mark.parametrize("kernel", KERNELS)
def test_too_many_kernels_are_refused(kernel):
    refused, count = run(KEEP, kernel, limit=4 * GIB).splitlines()
    assert re.match(r"no room for \d+ MiB more: ulimit -v is 4194304, ", refused)
    assert 1 <= int(count) <= 3
