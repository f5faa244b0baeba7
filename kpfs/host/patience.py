# SPDX-License-Identifier: GPL-2.0-or-later
"""Waits for another process, and tells a slow one from a stuck one.

Time in which either process wants a CPU and gets none does not count: on a machine with
more work than CPUs, a slow process is not stuck.

Document: proc_pid_stat(5).
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable

from kpfs.base.host_process import RUNNABLE, STATE, STIME, UTIME, stat_words
from kpfs.base.typed import NamedTuple

STEP = 0.05  # s from one look to the next
MOST = 60.0  # s on the clock, however busy the machine is
TICK = 1 / os.sysconf("SC_CLK_TCK")  # s


class Usage(NamedTuple):
    """The CPU time of a process, and whether it wants more."""

    wants: bool  # one of its threads is runnable
    ran: float  # s, of all threads


def comes(pid: int, seconds: float, look: Callable[[float], bool]) -> bool:
    """Return True if something that process pid is to do is done in time.

    look: waits for that many seconds at most, and returns True when it is done.
    """
    begin, waited = time.monotonic(), 0.0
    processes = pid, os.getpid()
    before = [_usage(process) for process in processes]
    while not look(STEP):
        now = [_usage(process) for process in processes]
        counted = [
            max(0.0, new.ran - old.ran)  # a thread may have ended
            for old, new in zip(before, now, strict=True)
            if new.wants
        ]
        # a look that took longer than a step is one for which we waited for a CPU
        waited += min(counted, default=STEP)
        before = now
        if waited >= seconds or time.monotonic() - begin >= MOST:
            return False
    return True


def _usage(pid: int) -> Usage:
    """Return the usage of a process now, without the thread that asks."""
    wants, ran = False, 0
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            if int(thread) == threading.get_native_id():
                continue
            if words := stat_words(f"{pid}/task/{thread}"):
                wants |= words[STATE] == RUNNABLE
                ran += int(words[UTIME]) + int(words[STIME])
    return Usage(wants, ran * TICK)
