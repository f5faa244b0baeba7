# SPDX-License-Identifier: GPL-2.0-or-later
"""The clock of a kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kpfs.api.session import Session

NSEC = 1_000_000_000


class Clock:
    """The kernel's time: that of the host, or of a quiet guest a virtual one."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def now(self) -> float:
        """Seconds since the kernel was booted."""
        with self._session.call(), self._session.root.lock:
            return self._session.root.guest.clock.now() / NSEC

    def advance(self, seconds: float) -> None:
        """Let so many seconds pass at once, with all that is due in them.

        Timers run, probes that wait for it become jumps, tasks that sleep wake up.
        ValueError: the guest is not quiet, so its time is the host's.
        """
        root = self._session.root
        if not root.guest.quiet:
            raise ValueError("only the clock of a quiet guest can be advanced")
        if seconds < 0:
            raise ValueError("time does not go back")
        with self._session.call(), root.lock:
            root.syscalls.check()
            guest = root.guest
            end = guest.clock.now() + round(seconds * NSEC)
            while (due := guest.next_deadline()) is not None and due <= end:
                guest.tick()
                root.background.guest_ran()
            guest.clock.advance(end)
