# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's lock, which threads get in the order in which they asked for it.

Its owner may take it again, as of threading.RLock, which starves some threads when many
wait for it.
"""

from __future__ import annotations

import errno
import threading
import time
from collections import deque
from collections.abc import Callable
from threading import get_ident

from kpfs.base.errors import KernelError

# A signal that comes while a thread waits for the lock ends its wait only if that has
# lasted so long: where Linux would go on, few callers expect EINTR.
PATIENCE = 0.05  # s


class Waiter:
    """A thread that waits until another wakes it, or its caller gets a signal."""

    __slots__ = ("_asleep", "_began", "awake", "ident", "interrupted", "patience")

    def __init__(self, patience: float = 0.0) -> None:
        """patience: seconds before which interrupt() has no effect."""
        self.ident = get_ident()
        self.patience = patience
        self.awake = False
        self.interrupted = False
        self._began = time.monotonic()
        self._asleep = threading.Lock()
        self._asleep.acquire()

    def wake(self) -> None:
        """End the wait; to be called once."""
        self.awake = True
        self._rouse()

    def interrupt(self) -> None:
        """End the wait, with a signal as the reason."""
        self.interrupted = True
        self._rouse()

    def _rouse(self) -> None:
        try:
            self._asleep.release()
        except RuntimeError:  # two at once: it is awake
            pass

    def sleep(self, seconds: float = -1) -> None:
        """Wait, at most so long if that is not negative."""
        self._asleep.acquire(timeout=seconds)
        if self.interrupted and not self.awake:
            left = self._began + self.patience - time.monotonic()
            if left > 0:
                self._asleep.acquire(timeout=left)


class FairLock:
    """First come, first served.

    ``turns`` counts how often it has been taken.  ``wait`` is what a thread calls to
    sleep, here and in kpfs.root.background: a mount sets it, as it must know which
    threads sleep.
    """

    def __init__(self) -> None:
        self.wait: Callable[[Waiter], None] = Waiter.sleep
        self.turns = 0
        self._taken = threading.Lock()  # by the owner, or for the next owner
        self._owner = 0
        self._depth = 0  # how often the owner has taken it beside the first time
        self._guard = threading.Lock()  # of the queue, where it is not empty
        self._queue: deque[Waiter] = deque()

    def __enter__(self) -> None:
        """Take it; EINTR if the caller of this thread's request gets a signal."""
        me = get_ident()
        if self._owner == me:
            self._depth += 1
        elif self._taken.acquire(False):
            self._owner = me
            self.turns += 1
        else:
            self._queue_up()

    def __exit__(self, *_: object) -> None:
        """Give it back; the thread that has waited longest has it then."""
        if self._depth:
            self._depth -= 1
            return
        self._owner = 0
        if not self._queue:
            self._taken.release()
            if not self._queue or not self._taken.acquire(False):
                return
            # one has come in between, and relies on us
        self._hand_over()

    def taken(self) -> bool:
        """Return True if a thread has it, which may be the calling one."""
        return self._taken.locked()

    def sleep(self, waiter: Waiter) -> None:
        """Wait without the lock, which is taken once, and take it again.

        Whether the waiter was woken or its caller got a signal, it says itself.
        """
        assert not self._depth
        self.__exit__()
        try:
            self.wait(waiter)
        finally:
            while True:
                try:
                    self.__enter__()
                    break
                except KernelError:  # the signal is known by now
                    continue

    def _queue_up(self) -> None:
        waiter = Waiter(PATIENCE)
        self._queue.append(waiter)
        if self._taken.acquire(False):  # it was given back in between
            self._hand_over()
        try:
            if not waiter.awake:
                self.wait(waiter)
        finally:
            with self._guard:
                if not waiter.awake:
                    self._queue.remove(waiter)
        if not waiter.awake:
            raise KernelError(errno.EINTR, "a signal")

    def _hand_over(self) -> None:
        """Make the first of the queue the owner; _taken is for that thread."""
        with self._guard:
            while not self._queue:  # the thread did not wait for it
                self._taken.release()
                if not self._queue or not self._taken.acquire(False):
                    return
            waiter = self._queue.popleft()
            self._owner = waiter.ident
            self.turns += 1
            waiter.wake()
