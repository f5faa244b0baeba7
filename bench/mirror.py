# SPDX-License-Identifier: GPL-2.0-or-later
"""The cost of mirrored system calls for a command under ``kpfs run``.

If nothing is armed, or a probe stands where these calls cannot come, calls are skipped.
If an event is on where any call may come, they are made.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.command import Command, with_event
from bench.row import Row

CYCLES = 500
CALLS_PER_CYCLE = 3
FORKS = 50
OPEN_READ_CLOSE = f"""
import os, time
def cycles(n):
    for _ in range(n):
        fd = os.open("/etc/passwd", os.O_RDONLY)
        os.read(fd, 1)
        os.close(fd)
cycles(20)
begin = time.perf_counter()
cycles({CYCLES})
print(time.perf_counter() - begin)
"""
FORK_AND_WAIT = f"""
import os, time
begin = time.perf_counter()
for _ in range({FORKS}):
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)
print(time.perf_counter() - begin)
"""


def costs(repeats: int, *guest: str, prepare: str = "") -> tuple[float, float]:
    """Seconds that mirroring adds to a call, and to a fork with its exit.

    guest: options of kpfs run; prepare: a program that runs before.
    """
    with tempfile.TemporaryDirectory() as scratch:
        kpfs = Command(Path(scratch))

        def seconds(program: str, *options: str) -> float:
            words = (*guest, *options, "--", sys.executable, "-Sc", prepare + program)
            return float(kpfs("run", *words).stdout)

        def added(program: str) -> float:
            """Median of what it takes more, of runs in turn."""
            return statistics.median(
                seconds(program) - seconds(program, "--no-mirror")
                for _ in range(repeats)
            )

        call = added(OPEN_READ_CLOSE) / CYCLES / CALLS_PER_CYCLE
        fork = added(FORK_AND_WAIT) / FORKS
        kpfs.finish()
        return call, fork


def mirroring(repeats: int) -> Iterator[Row]:
    """Microseconds that mirroring adds to a call, and to a fork with its exit."""
    call, fork = costs(repeats, "--quiet-guest")
    yield Row("mirrored_call", call * 1e6, "us", note="open, read, close")
    yield Row("mirrored_fork_and_exit", fork * 1e6, "us")
    # called by a pointer only, so that any call may come to it
    armed = with_event("simple_rename")
    call, fork = costs(repeats, "--quiet-guest", prepare=armed)
    note = "open, read, close, while an event is on"
    yield Row("mirrored_call_armed", call * 1e6, "us", note=note)
    yield Row("mirrored_fork_armed", fork * 1e6, "us", note="and exit")
    armed = with_event("vfs_mkdir")
    call, fork = costs(repeats, "--quiet-guest", prepare=armed)
    note = "while an event is on that they cannot come to"
    yield Row("mirrored_call_unseen", call * 1e6, "us", note=note)
    yield Row("mirrored_fork_unseen", fork * 1e6, "us", note="and exit")


GROUPS = {"mirror": mirroring}
