# SPDX-License-Identifier: GPL-2.0-or-later
"""Notice a thread that keeps the kernel's lock while it waits for something else.

All that use the kernel's files would wait with it for ever.  kpfs.base.lock says why
this cannot be; if it is all the same, the user is to be told which thread waits for
what, and not to wait, too.

Threads that keep the lock for long and rightly: one that works has had a CPU since the
last look, or wants one; one that lets others in changes the count of turns; and a
debugger that has stopped the kernel gives signs of life.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import sys
import threading
import time
from collections.abc import Callable

from kpfs.base.host_process import RUNNABLE, STATE, STIME, UTIME, stat_words
from kpfs.base.lock import FairLock
from kpfs.host import hints, mounts

LOOK = 1.0  # s between looks, while threads wait for the lock
LOOKS = 20  # without a change, after which the owner is stuck
DEATH = 2  # s that may be taken to tell of it


class LockWatch:
    """A thread that looks at a lock while others wait for it."""

    def __init__(self, lock: FairLock, tell: Callable[[str], object]) -> None:
        """tell: is told, once, of a thread that is stuck."""
        self._lock = lock
        self._tell = tell

    def start(self) -> None:
        with contextlib.suppress(RuntimeError):  # some limit
            threading.Thread(target=self.run, name="watch", daemon=True).start()

    def run(self) -> None:
        """Look until a thread is stuck: the body of the thread."""
        before: object = None
        same = 0
        while self._lock.waited.wait():
            time.sleep(LOOK)
            self._lock.waited.clear()
            now = self._signs()
            same = same + 1 if now is not None and now == before else 0
            before = now
            if same == LOOKS:
                self._tell(self._line())
                return
            if now is not None:  # those that wait do not tell again
                self._lock.waited.set()

    def _signs(self) -> object:
        """Return what changes while the owner does something; None: nobody waits."""
        lock, owner = self._lock, self._owner()
        turn = lock.turns
        if not lock.is_waited_for or owner is None:
            return None
        words = stat_words(f"self/task/{owner.native_id}")
        if not words or words[STATE] == RUNNABLE:
            return object()  # unlike any other
        return turn, lock.signs, words[UTIME], words[STIME]

    def _owner(self) -> threading.Thread | None:
        owner = self._lock.owner
        return next((t for t in threading.enumerate() if t.ident == owner), None)

    def _line(self) -> str:
        """Name the owner of the lock, and what it waits for."""
        owner = self._owner()
        if owner is None:
            return "it has given the lock back"
        place, linux = "Python", ""
        if (frame := sys._current_frames().get(owner.ident or 0)) is not None:
            place = f"{frame.f_globals.get('__name__')}.{frame.f_code.co_name}()"
        with contextlib.suppress(OSError):
            with open(f"/proc/self/task/{owner.native_id}/wchan") as file:
                linux = f" ({file.read()})"
        return (
            f"the kernel stands still: thread {owner.name} has waited for "
            f"{LOOKS * LOOK:g} s in {place}{linux} with the kernel's lock"
        )


def end(mountpoint: str, told: int, log: str, line: str) -> None:
    """End this daemon, whose kernel stands still, by SIGALRM, and its mount.

    told: see kpfs.host.hints.  log: is named to the user, as it gets the stacks of all
    threads.
    """
    signal.alarm(DEATH)  # whatever the rest waits for
    said = f"{line}; please report this, with {log}"
    hints.add(told, said, if_failed=False)
    ours = [each for each in mounts.table() if each.target == mountpoint]
    mounts.abort(mountpoint)  # first, as a thread may wait for an answer of its own
    for mount in ours[-1:]:
        mounts.detach(mount)
    os.write(2, f"kpfs[{os.getpid()}] CRITICAL {line}\n".encode())
    faulthandler.dump_traceback(2, all_threads=True)
    os.kill(os.getpid(), signal.SIGALRM)
