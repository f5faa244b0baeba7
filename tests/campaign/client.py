# SPDX-License-Identifier: GPL-2.0-or-later
"""One of many clients: ``client.py MOUNT ROLE NUMBER SECONDS``.

Beside the roles of tests/e2e/stress.py there are a caller, whose system calls are
counted, and a maker of events.
"""

from __future__ import annotations

import os
import random
import sys
import time

from tests.e2e import stress

CALLS = 20  # in one write
EVENT = "p:stress/calls __x64_sys_getppid"


def caller(top: str, _number: int) -> None:
    stress.write(f"{top}/machine/syscall", b"getppid\n" * CALLS)


def append(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        assert os.write(fd, text.encode()) == len(text)
    finally:
        os.close(fd)


def maker(top: str, number: int) -> None:
    """An event comes, is seen, and goes again."""
    events = f"{top}/tracing/kprobe_events"
    line = f"p:stress/own{number} vfs_unlink"
    append(events, f"{line}\n")
    assert f"{line}\n" in stress.whole(events, 777)
    append(events, f"-:stress/own{number}\n")
    assert f"own{number} " not in stress.whole(events)


ROLES = {**stress.ROLES, "caller": caller, "maker": maker}


def main() -> None:
    top, role, number, seconds = sys.argv[1:]
    random.seed(int(number))
    end = time.monotonic() + float(seconds)
    rounds, slowest = 0, 0.0
    while (begin := time.monotonic()) < end:
        ROLES[role](top, int(number))
        slowest = max(slowest, time.monotonic() - begin)
        rounds += 1
    print(rounds, slowest)


if __name__ == "__main__":
    main()
