# SPDX-License-Identifier: GPL-2.0-or-later
"""All processes that a part of the campaign starts end with it, daemons too.

A process that loses its parent below a subreaper becomes its child: prctl(2).  So all
of them stay in the tree of processes below us, whatever sessions and groups they make.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from kpfs.host import mounts
from tests.harness import state

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
PATIENCE = 10.0  # s
WARM = "3"  # s that kpfs keeps a kernel ready for the next command (KPFS_WARM)
SOON = 15.0  # s until all has ended, ready kernels too


def adopt() -> None:
    """Become the parent of all that are left behind below us."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with(parent: int) -> None:
    """Be killed when the parent ends, which is the process of that number."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def below(pid: int) -> Iterator[int]:
    """Yield the processes below one, parents first, without zombies."""
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            text = Path(f"/proc/{pid}/task/{task}/children").read_text()
            for child in map(int, text.split()):
                if state(child) not in ("Z", ""):
                    yield child
                yield from below(child)


def told(pids: list[int]) -> str:
    """Name processes, and what each of them does."""
    return "; ".join(f"{name(pid)} ({state(pid)})" for pid in pids)


def name(pid: int) -> str:
    """Return the command line of a process, or its short name."""
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
        if words.strip():
            return words.decode(errors="replace").strip()[:150]
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return "?"


def reap() -> None:
    """Wait for the children that have ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def linger(patience: float, others: Collection[int] = ()) -> list[int]:
    """Wait; return the processes below us, but for others, that outlast patience."""
    until = time.monotonic() + patience
    while True:
        reap()
        left = [pid for pid in below(os.getpid()) if pid not in others]
        if not left or time.monotonic() > until:
            return left
        time.sleep(0.05)


def unmount_below(folder: Path) -> list[str]:
    """Remove the mounts below folder; return their places."""
    inside = f"{folder}/"
    found = [entry for entry in mounts.table() if entry.target.startswith(inside)]
    for entry in reversed(found):
        mounts.abort(entry.target)
        mounts.detach(entry)
    return [entry.target for entry in found]


def end_all(folder: Path) -> None:
    """Kill all that is below us, and unmount what lies below folder."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        unmount_below(folder)  # first: a process that waits for a daemon cannot die
        left = list(below(os.getpid()))
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        reap()
        if not left:
            return
        time.sleep(0.02)
