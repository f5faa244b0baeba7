# SPDX-License-Identifier: GPL-2.0-or-later
"""Does some things at the same time, each in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

from kpfs.base.errors import SetupError
from kpfs.base.signals import SIGNALLED, SignalledError, held, raised
from kpfs.host.process import die_with_parent, exit_status
from kpfs.host.progress import counted

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


def gathered(
    names: Sequence[str], work: Callable[[str], object], words: str
) -> dict[str, Any]:
    """Return by name what work returns, as JSON has it; one for each processor at once.

    work: called in a process of its own.  words: say at a terminal what is waited for.
    Raises SetupError, if one of them does.
    """
    found = dict[str, Any]()
    with ExitStack() as stack:
        files = {name: stack.enter_context(tempfile.TemporaryFile()) for name in names}

        def write(name: str) -> int:
            try:
                result = {"result": work(name)}
            except SetupError as error:
                result = {"error": str(error)}
            files[name].write(json.dumps(result).encode())
            files[name].flush()
            return 0

        stack.enter_context(raised())
        for done in counted(words, run(names, os.cpu_count() or 1, write), len(names)):
            files[done.name].seek(0)
            told = files[done.name].read() or b"{}"
            found[done.name] = json.loads(told)
            if "result" not in found[done.name]:
                told = found[done.name].get("error", f"it ended by {done.status}")
                named = f"{done.name}: "
                raise SetupError(named + told.removeprefix(named))
    return {name: found[name]["result"] for name in names}


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
