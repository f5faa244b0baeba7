# SPDX-License-Identifier: GPL-2.0-or-later
"""The same operations in the same order give the same trace with --quiet-guest."""

import contextlib
import os

import pytest

pytestmark = [pytest.mark.fuse, pytest.mark.guest]

# hits by breakpoint, with a single step and without, by a call, and returns
EVENTS = """\
p:entry vfs_read fd=%di:u64 count=%dx
p:inside vfs_read+5
p:call do_sys_openat2+0 name=+0(%si):ustring
r:returned ksys_read ret=$retval:s64
r:opened do_sys_openat2
p:switch schedule comm=$comm
p:forked kernel_clone
"""
CALLS = """\
openat -100 /etc/passwd 0
read 3 buf 100
getppid
fork
pipe buf
nanosleep "\x01\x02\x03\x04\x05"
close 3
"""


def session(mount):
    """Make a run, all of it by this very process; return the texts that it leaves."""
    tracing = mount / "tracing"
    (mount / "sys/debug/kprobes-optimization").write_text("0")
    (tracing / "kprobe_events").write_text(EVENTS)
    (tracing / "events/kprobes/enable").write_text("1")
    for _ in range(5):
        for line in CALLS.splitlines():
            with contextlib.suppress(OSError):  # some are refused
                (mount / "machine/syscall").write_text(f"{line}\n")
        (mount / "kprobes/list").read_text()
        (mount / "kprobes/enabled").write_text("0")
        (mount / "kprobes/enabled").write_text("1")
    (tracing / "events/kprobes/enable").write_text("0")
    names = ("trace", "kprobe_profile")
    texts = [(tracing / name).read_text() for name in names]
    return [*texts, (mount / "kprobes/list").read_text()]


@pytest.mark.parametrize("cpus", [1, 2, 4])
def test_the_same_session_gives_the_same_trace(kpfs, cpus):
    options = ("--quiet-guest", "--cpus", str(cpus))
    runs = [session(kpfs.mount(*options)) for _ in range(3)]
    trace = runs[0][0].splitlines()
    assert sum(f"-{os.getpid()} " in line for line in trace) > 100
    assert {line.split(": ")[1] for line in trace if ": " in line} >= {
        *("entry", "inside", "call", "returned", "opened", "switch", "forked"),
    }
    assert runs[1] == runs[0]
    assert runs[2] == runs[0]
