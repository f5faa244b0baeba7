# SPDX-License-Identifier: GPL-2.0-or-later
"""Does some things at the same time, each in a process of its own."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from kpfs.host.process import die_with_parent, exit_status


class Done(NamedTuple):
    """The end of one of them."""

    name: str
    status: int  # as a shell has it
    seconds: float


def run(
    names: Iterable[str], at_once: int, work: Callable[[str], int]
) -> Iterator[Done]:
    """Yield each name when its work is done, in the order in which they end.

    work: called in a process of its own, whose status it returns.  The processes end
    with this one, and when the caller asks for no more.
    """
    waiting, running = list(names), dict[int, tuple[str, float]]()
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                name = waiting.pop(0)
                running[_start(name, work)] = name, time.monotonic()
            pid, status = os.wait()
            name, begin = running.pop(pid)
            yield Done(name, exit_status(status), time.monotonic() - begin)
    finally:
        for pid in running:
            os.kill(pid, signal.SIGTERM)


def _start(name: str, work: Callable[[str], int]) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            die_with_parent(parent)
            status = work(name)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(status)
    return pid
