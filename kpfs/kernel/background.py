# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest's background work, done as time passes, and those who wait for it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from kpfs.guest.emu.traps import GuestPanicError
from kpfs.guest.machine import Guest

log = logging.getLogger(__name__)

NSEC = 1_000_000_000


class Background:
    """Runs the guest when something is due.  ``lock`` is held while it runs."""

    def __init__(self, guest: Guest, lock: threading.RLock) -> None:
        self._guest = guest
        self._lock = lock
        self._changed = threading.Condition(lock)
        self._waiters = 0
        self._on_wake: Callable[[], None] | None = None
        self._ticker: threading.Thread | None = None
        self._tick_at: int | None = None  # guest time at which the ticker wakes up
        self._wake_ticker = threading.Event()
        self._stopped = False

    def guest_ran(self) -> None:
        """Tell those who wait for something to run in the guest.

        Whoever has let the guest run calls this, with the lock held.
        """
        if self._waiters:
            self._changed.notify_all()
        if self._on_wake is not None:
            self._on_wake()
        if self._ticker is not None and not self._wake_ticker.is_set():
            deadline = self._guest.next_deadline()
            if deadline is not None and (
                self._tick_at is None or deadline < self._tick_at
            ):
                self._wake_ticker.set()

    def wait(self, seconds: float) -> None:
        """Give up the lock until something ran in the guest, or the time is over."""
        if self._ticker is None:  # then those who wait let the guest's time pass
            due = self._run_due()
            seconds = seconds if due is None else max(0.0, min(due, seconds))
        self._waiters += 1
        try:
            self._changed.wait(seconds)
        finally:
            self._waiters -= 1

    def start(self, on_wake: Callable[[], None] | None = None) -> None:
        """Let time pass for the guest: run what it has to do in the background.

        on_wake is called under the lock when something may have become readable.
        """
        self._on_wake = on_wake
        self._ticker = threading.Thread(target=self._tick, name="tick", daemon=True)
        self._ticker.start()

    def _tick(self) -> None:
        """The ticker: runs the guest when something is due, sleeps in between."""
        wake = self._wake_ticker
        while not self._stopped:
            with self._lock:
                if self._stopped:
                    return
                wake.clear()
                seconds = self._run_due()
            if seconds is None or seconds > 0:
                wake.wait(seconds)

    def _run_due(self) -> float | None:
        """Run what is due; returns the seconds until more is, None for never."""
        guest = self._guest
        try:
            deadline = guest.next_deadline()
            if deadline is not None and deadline <= guest.clock.now():
                guest.tick()
                self.guest_ran()
                deadline = guest.next_deadline()
        except GuestPanicError:  # it has been logged
            self._stopped = True
            self._changed.notify_all()
            return None
        except Exception:
            log.exception("the guest's background work failed")
            self._stopped = True
            return None
        self._tick_at = deadline
        return None if deadline is None else (deadline - guest.clock.now()) / NSEC

    def retire(self) -> None:
        """End the background work for good, and wake who waits.  The lock is held."""
        self._stopped = True
        self._wake_ticker.set()
        self._changed.notify_all()

    def stop(self) -> None:
        """End the background work; the caller must not hold the lock."""
        with self._lock:
            self.retire()
        if self._ticker is not None:
            self._ticker.join()
