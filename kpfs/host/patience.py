# SPDX-License-Identifier: GPL-2.0-or-later
"""How long one waits for another process before it counts as stuck.

Time in which it, or who waits, wants a CPU and gets none does not count: on a machine
with more work than CPUs, whoever is slow is not stuck.

Document: proc_pid_stat(5).
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

STEP = 0.05  # s between two looks
MOST = 60.0  # s on the clock, however busy the machine is
RUNNABLE = "R"  # a state: it has a CPU, or wants one
STATE, UTIME, STIME = 0, 11, 12  # words of /proc/PID/stat behind the name
TICK = 1 / os.sysconf("SC_CLK_TCK")  # s


class Usage(NamedTuple):
    """What a process has had of the CPUs."""

    wants: bool  # one of its threads is runnable
    ran: float  # s, all of them


def comes(pid: int, seconds: float, look: Callable[[float], bool]) -> bool:
    """Whether something that process pid is to do is done in time.

    look: waits for it, at most so many seconds; whether it is done.
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
    """That of a process at this moment; the thread that asks left out."""
    wants, ran = False, 0
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            if int(thread) == threading.get_native_id():
                continue
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/task/{thread}/stat", errors="replace") as stat:
                    words = stat.read().rpartition(")")[2].split()
                wants |= words[STATE] == RUNNABLE
                ran += int(words[UTIME]) + int(words[STIME])
    return Usage(wants, ran * TICK)
