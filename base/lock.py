# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's lock, which threads get in the order in which they asked for it.

Its owner may take it again, as of threading.RLock, which starves some threads when many
wait for it.  A thread that needs it for long steps aside now and then: those that wait
have it first.

The order of locks.  A process that uses a file of the mount may have locks of the
host's kernel while it waits for our answer: that of an inode, of the position of an
open file, of an epoll instance, of its memory, of its execve().  The answer needs this
lock.  So whoever has this lock makes no call of the host that may take one of those:

    locks of the host's kernel  ->  the kernel's lock  ->  short locks of single objects

Calls that are allowed with the lock held read /proc and answer at once: status, stat,
comm, children, the links of fd and cwd, fdinfo but for that of an epoll instance, and
statx(2) with AT_STATX_DONT_SYNC of an open file.  All others are made before or
afterwards: those by a path, on an open file of the mount, and to the memory of a
process.  Two more are allowed, for these reasons:

- kcmp(2) waits for the end of an execve(2) from the moment when it has taken the new
  memory.  In that part Linux closes descriptors, and the mount is asked nothing:
  FOPEN_NOFLUSH sees to that, from Linux 5.16 on.  It also ends asynchronous I/O, which
  files of the mount do not have: kpfs.fs.fuse.ops must not want FUSE_ASYNC_DIO.
- FUSE_NOTIFY_INVAL_INODE of a directory, with an offset below 0, touches no page and
  asks no file system.  It waits only for an inode that Linux is making or forgetting,
  and of a directory Linux asks us nothing in between.  Notifications that take the lock
  of a directory or of a page (INVAL_ENTRY, DELETE, STORE) are sent without the lock.
"""

from __future__ import annotations

import errno
import threading
import time
from array import array
from collections import deque
from collections.abc import Callable
from threading import get_ident

from kpfs.base.errors import KernelError
from kpfs.base.typed import Protocol

# A signal that comes while a thread waits for the lock ends its wait only if that has
# lasted so long: where Linux would go on, few callers expect EINTR.
PATIENCE = 0.05  # s
CROWDED = 0.02  # s after the last wait in which others are expected back
BREATH = 0.00005  # s


class Waiter:
    """A thread that waits until another wakes it, or its caller gets a signal."""

    __slots__ = (
        "_asleep", "_began", "awake", "ident", "interrupted", "may_be_refused",
        "patience", "refused",
    )  # fmt: skip

    def __init__(self, patience: float = 0.0) -> None:
        """patience: seconds before which interrupt() has no effect."""
        self.ident = get_ident()
        self.patience = patience
        self.awake = False
        self.interrupted = False
        self.may_be_refused = False  # set by who has somebody to tell
        self.refused = False
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

    def refuse(self, seconds: float) -> None:
        """End a wait that has lasted so long, if its caller can be told."""
        if self.may_be_refused and time.monotonic() - self._began >= seconds:
            self.refused = True
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


class Stepping(Protocol):
    """The step that a thread adds when it steps aside from the lock."""

    def aside(self) -> None:
        """Hand on work that waits for this thread; called before each wait."""


class FairLock:
    """First come, first served.

    ``wait`` is what a thread calls to sleep, here and in the guest's Background.
    """

    def __init__(self) -> None:
        self.wait: Callable[[Waiter], None] = Waiter.sleep
        self._turns = array("Q", (0,))
        self._taken = threading.Lock()  # by the owner, or for the next owner
        # returns True if a thread has it, which may be the calling one
        self.taken: Callable[[], bool] = self._taken.locked
        self._owner = 0
        self._depth = 0  # how often the owner has taken it beside the first time
        self._guard = threading.Lock()  # guards the queue, where it is not empty
        self._queue: deque[Waiter] = deque()
        self.stepping: dict[int, Stepping] = {}  # by ident of the thread
        self.ticker = 0  # ident of a thread that comes by itself, for nobody
        self._crowded_until = 0.0  # a time of time.monotonic()
        # for kpfs.host.stuck: some thread has to wait; what an owner shows that keeps
        # the lock for as long as it likes
        self.waited = threading.Event()
        self.signs = 0

    def sleep_by(self, wait: Callable[[Waiter], None]) -> None:
        """Have threads sleep by wait(): a mount must know which of them do."""
        self.wait = wait

    @property
    def turns(self) -> int:
        """How often it has been taken."""
        return self._turns[0]

    @property
    def owner(self) -> int:
        """The ident of the thread that has it; 0: none has."""
        return self._owner

    @property
    def is_waited_for(self) -> bool:
        """Return True if a thread waits for it."""
        return bool(self._queue)

    @property
    def turns_at(self) -> int:
        """The address of ``turns``, a word of 64 bits, for code in C."""
        return self._turns.buffer_info()[0]

    def __enter__(self) -> None:
        """Take it; EINTR if the caller of this thread's request gets a signal.

        EAGAIN: see refuse_waiting().
        """
        me = get_ident()
        if self._owner == me:
            self._depth += 1
        elif self._taken.acquire(False):
            self._owner = me
            self._turns[0] += 1
        else:
            self._queue_up()

    def __exit__(self, *_: object) -> None:
        """Give it back; the thread that has waited longest has it then."""
        if self._depth:
            self._depth -= 1
            return
        self._owner = 0
        if self._queue:
            self._hand_over()
        else:
            self._taken.release()
            # one may have come in between, and relies on us
            if self._queue and self._taken.acquire(False):
                self._hand_over()

    def step_aside(self, seconds: float = 0.0) -> None:
        """Let all threads that wait have it first, then take it again.

        It is given back however often it was taken, and nothing that it protects may
        be relied on afterwards.  A caller that does not have it keeps what it has.
        A thread that others have just waited for sleeps for a moment each time, as they
        come back soon: else they would wait for Python's interpreter, once for each
        call that they make on their way.
        seconds: sleep so long without it.
        """
        me = get_ident()
        if self._owner != me:
            time.sleep(seconds)
            return
        self.hand_on()
        if any(waiter.ident != self.ticker for waiter in list(self._queue)):
            self._crowded_until = time.monotonic() + CROWDED
        elif not seconds and time.monotonic() < self._crowded_until:
            seconds = BREATH
        if self._queue or seconds:
            depth, self._depth = self._depth, 0
            self.__exit__()
            if seconds:
                time.sleep(seconds)
            self._take_again()
            self._depth = depth

    def hand_on(self) -> None:
        """Hand on work that waits for this thread, as it will have the lock for long.

        Context: any; it costs nothing if there is no such work.
        """
        if self.stepping and (stepping := self.stepping.get(get_ident())) is not None:
            stepping.aside()

    def _take_again(self) -> None:
        """Take it; a signal of the caller is no reason not to."""
        while True:
            try:
                self.__enter__()
                return
            except KernelError:  # the signal is known by now
                continue

    def sleep(self, waiter: Waiter) -> None:
        """Wait without the lock, which is taken once, and take it again.

        Whether the waiter was woken or its caller got a signal, it says itself.
        """
        assert not self._depth
        self.__exit__()
        try:
            self.wait(waiter)
        finally:
            self._take_again()

    def _queue_up(self) -> None:
        waiter = Waiter(PATIENCE)
        if not self._wait_in_queue(waiter, self.wait):
            if waiter.refused:
                raise KernelError(errno.EAGAIN, "a debugger has stopped the kernel")
            raise KernelError(errno.EINTR, "a signal")

    def _wait_in_queue(self, waiter: Waiter, wait: Callable[[Waiter], None]) -> bool:
        """Return True if the lock was handed over to a waiter, False if it left."""
        self._queue.append(waiter)
        if not self.waited.is_set():
            self.waited.set()
        if self._taken.acquire(False):  # it was given back in between
            self._hand_over()
        try:
            if not waiter.awake:
                wait(waiter)
        finally:
            with self._guard:
                if not waiter.awake:
                    self._queue.remove(waiter)
        return waiter.awake

    def take_within(self, seconds: float) -> bool:
        """Take it, if that is possible in time; the caller does not have it."""
        if self._taken.acquire(False):
            self._owner = get_ident()
            self._turns[0] += 1
            return True
        return self._wait_in_queue(Waiter(), lambda waiter: waiter.sleep(seconds))

    def refuse_waiting(self, seconds: float) -> None:
        """Refuse it to those that have waited so long and can be told, by EAGAIN.

        For a thread that keeps the kernel from running, and so from giving it back.
        """
        self.signs += 1
        self.hand_on()
        for waiter in list(self._queue):
            waiter.refuse(seconds)

    def _hand_over(self) -> None:
        """Make the first of the queue the owner; _taken is for that thread."""
        with self._guard:
            while not self._queue:  # the thread did not wait for it
                self._taken.release()
                if not self._queue or not self._taken.acquire(False):
                    return
            waiter = self._queue.popleft()
            self._owner = waiter.ident
            self._turns[0] += 1
            waiter.wake()
