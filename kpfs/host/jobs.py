# SPDX-License-Identifier: GPL-2.0-or-later
"""Does some things at the same time, each in a process of its own."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from kpfs.base.signals import SIGNALLED, SignalledError, held
from kpfs.host.process import die_with_parent, exit_status

_GRACE = 5.0  # s for one that is told to end to take away what it has made


class Done(NamedTuple):
    """The end of one of them."""

    name: str
    status: int  # as a shell has it
    seconds: float


def run(
    names: Iterable[str],
    at_once: int,
    work: Callable[[str], int],
    end: signal.Signals = signal.SIGTERM,
) -> Iterator[Done]:
    """Yield each name when its work is done, in the order in which they end.

    work: called in a process of its own, whose status it returns.  The processes end
    with this one, and by the signal end when the caller asks for no more.
    """
    waiting, running = list(names), dict[int, tuple[str, float]]()
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                name = waiting.pop(0)
                with held() as mask:
                    running[_start(name, work, mask)] = name, time.monotonic()
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
            with held():  # a pid in running is one of ours until it is taken out
                pid, status = os.wait()
                ended = running.pop(pid, None)
            if ended:  # a container's first process has children of others, too
                name, begin = ended
                yield Done(name, exit_status(status), time.monotonic() - begin)
    finally:
        _end(list(running), end)


def _end(pids: list[int], number: signal.Signals) -> None:
    """End processes, and return when they have ended."""
    for pid in pids:
        os.kill(pid, number)
    until = time.monotonic() + _GRACE
    while pids := [pid for pid in pids if not os.waitpid(pid, os.WNOHANG)[0]]:
        if time.monotonic() > until:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _start(
    name: str, work: Callable[[str], int], mask: set[int | signal.Signals]
) -> int:
    """Start a process for one; return its pid.

    mask: of signals, for that process. Context: ours are held, as neither may the new
    process end our blocks, nor a signal come before its pid is known.
    """
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        die_with_parent(parent)
        status = work(name)
    except SignalledError as signalled:
        status = SIGNALLED + signalled.number
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)
