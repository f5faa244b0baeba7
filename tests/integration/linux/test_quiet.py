# SPDX-License-Identifier: GPL-2.0-or-later
"""--quiet-guest: the same operations give the same trace, byte for byte."""

import os
import struct

import pytest

from kpfs.base import syscall_numbers as nr
from kpfs.linux.running.machine import Op
from tests.integration.linux.conftest import Process

pytestmark = pytest.mark.kernel

NANOSLEEP = 35
TRACING = "/sys/kernel/tracing"


def session(kernel):
    """Probes of each kind, two processes, a long sleep: the trace."""
    first, second = (Process(kernel, pid) for pid in (4_000_001, 4_000_077))
    for definition in (
        "p:o do_sys_openat2 file=+0(%si):ustring",
        "r:r vfs_read $retval",
        "p:i vfs_read+9",
    ):
        first.echo(f"{TRACING}/kprobe_events", definition, os.O_APPEND)
    first.echo(f"{TRACING}/events/kprobes/enable", "1")
    first.echo(f"{TRACING}/events/sched/enable", "1")
    second.read("/proc/version")
    first.getppid(3)
    first.call(Op(NANOSLEEP, (struct.pack("<qq", 0, 200_000_000), 0)))
    second.read("/proc/meminfo")
    second.call(Op(nr.KILL, (4_000_001, 0)))
    first.echo(f"{TRACING}/events/enable", "0")
    return first.read(f"{TRACING}/trace")


def test_the_same_session_gives_the_same_trace(boot):
    first = session(boot())
    for name in (" o: ", " r: ", " i: ", " sched_switch: "):
        assert name in first
    assert session(boot()) == first
