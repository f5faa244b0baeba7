# SPDX-License-Identifier: GPL-2.0-or-later
"""Run the guest's background work as time passes, and wake threads that wait."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Sequence

from kpfs.backends.guest.root.log_follower import LogFollower
from kpfs.base.errors import KernelError
from kpfs.base.lock import FairLock, Waiter
from kpfs.base.log import Log
from kpfs.base.units import NSEC
from kpfs.guest.emu.traps import GuestPanicError
from kpfs.guest.machine import Guest
from kpfs.guest.running.klog import LogRecord

log = Log(__name__)

FOREVER = 1e6  # s
LOOK = 0.05  # s
PAUSE = 0.0001  # s
TICK = 0.004  # s


class Background:
    """The guest's background work. ``lock`` is held while it runs."""

    def __init__(
        self,
        guest: Guest,
        lock: FairLock,
        console: Callable[[Sequence[LogRecord]], None] | None = None,
    ) -> None:
        """console: shows new records of the guest's log."""
        self._guest = guest
        self._lock = lock
        self._waiting: dict[Waiter, Callable[[], bool]] = {}
        self._on_wake: Callable[[], None] | None = None
        self._ticker: threading.Thread | None = None
        self._tick_at: int | None = None  # guest time at which the ticker wakes up
        self._wake_ticker = threading.Event()
        self._stopped = self._retired = False
        self.follower = LogFollower(guest.log, console)
        guest.requests.tell(self.guest_ran)

    def guest_ran(self) -> None:
        """Wake threads that wait for something to run in the guest.

        Each request to the guest ends with this; whoever has let it run otherwise calls
        it, with the lock held.
        """
        if self._retired:  # while a request was in work
            return
        still = self._guest.sched.still
        if not still:
            self.follower.look()
        if self._waiting:
            self._wake(lambda ready: ready())
        if self._on_wake is not None:
            self._on_wake()
        if still:
            return
        self._guest.sched.note_words()
        if self._ticker is not None and not self._wake_ticker.is_set():
            deadline = self._guest.next_deadline()
            if deadline is not None and (
                self._tick_at is None or deadline < self._tick_at
            ):
                self._wake_ticker.set()

    def prepare_to_wait(
        self, ready: Callable[[], bool], *, signals: bool = True
    ) -> Waiter:
        """Have this thread woken when ready(), or when the guest is dead or gone.

        signals: those of the caller end the wait, too.
        Context: the lock is held, as it is for ready().
        """
        waiter = Waiter(0.0 if signals else FOREVER)
        self._waiting[waiter] = ready
        return waiter

    def wait(self, waiter: Waiter) -> None:
        """Wait for what was prepared; EINTR if the caller gets a signal.

        Context: the lock is not held.
        """
        try:
            if self._ticker is None:
                self._pass_time(waiter)
            else:
                self._lock.wait(waiter)
        finally:
            self._waiting.pop(waiter, None)
        if not waiter.awake:
            raise KernelError(errno.EINTR, "a signal")

    def _pass_time(self, waiter: Waiter) -> None:
        """Let the guest's time pass until that is awake, as no other thread does."""
        while not waiter.awake:
            with self._lock:
                due = self._run_due()
            if not waiter.awake:
                waiter.sleep(LOOK if due is None else min(max(due, 0.0), LOOK))

    def _wake(self, chosen: Callable[[Callable[[], bool]], bool]) -> None:
        for waiter, ready in list(self._waiting.items()):
            if chosen(ready) and self._waiting.pop(waiter, None) is not None:
                waiter.wake()

    def wake_all(self) -> None:
        """Wake all that waits: the guest is dead or gone."""
        self._wake(lambda _ready: True)
        if self._on_wake is not None:
            self._on_wake()

    def start(self, on_wake: Callable[[], None] | None = None) -> None:
        """Let time pass for the guest: run what it has to do in the background.

        on_wake is called under the lock when something may have become readable.
        """
        self._on_wake = on_wake
        self._ticker = threading.Thread(target=self._tick, name="tick", daemon=True)
        self._ticker.start()

    def _tick(self) -> None:
        """Run the guest when something is due, sleep in between: the ticker's body."""
        wake = self._wake_ticker
        self._lock.ticker = threading.get_ident()
        while not self._stopped:
            with self._lock:
                if self._stopped:
                    return
                wake.clear()
                seconds = self._run_due()
            if seconds is None or seconds > 0:
                wake.wait(seconds)
            else:  # it is busy: others need time to ask for it, or run it already
                time.sleep(TICK if self._guest.requests.busy else PAUSE)

    def _run_due(self) -> float | None:
        """Run what is due; return the seconds until more is due, None for never."""
        guest = self._guest
        try:
            deadline = guest.next_deadline()
            if deadline is not None and deadline <= guest.clock.now():
                guest.tick()
                self.guest_ran()
                deadline = guest.next_deadline()
        except GuestPanicError:  # it has been logged
            self._stopped = True
            return None
        except Exception:
            log.exception("the guest's background work failed")
            self._stopped = True
            return None
        self._tick_at = deadline
        return None if deadline is None else (deadline - guest.clock.now()) / NSEC

    def retire(self) -> None:
        """End the background work for good, and wake waiters. The lock is held."""
        self._stopped = self._retired = True
        self._wake_ticker.set()
        self.wake_all()

    def stop(self) -> None:
        """End the background work; the caller must not hold the lock."""
        with self._lock:
            self.retire()
        if self._ticker is not None:
            self._ticker.join()
