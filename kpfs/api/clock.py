# SPDX-License-Identifier: GPL-2.0-or-later
"""The clock of a kernel."""

from __future__ import annotations

from typing import Protocol


class Timed(Protocol):
    """A kernel whose time is told and can be advanced."""

    @property
    def quiet(self) -> bool: ...

    def now(self) -> float: ...

    def advance(self, seconds: float) -> None: ...


class Clock:
    """The kernel's time: that of the host, or of a quiet guest a virtual one."""

    def __init__(self, session: Timed) -> None:
        self._session = session

    def now(self) -> float:
        """Seconds since the kernel was booted."""
        return self._session.now()

    def advance(self, seconds: float) -> None:
        """Let so many seconds pass at once, with all that is due in them.

        Timers run, probes that wait for it become jumps, tasks that sleep wake up.
        ValueError: the guest is not quiet, so its time is the host's.
        """
        if not self._session.quiet:
            raise ValueError("only the clock of a quiet guest can be advanced")
        if seconds < 0:
            raise ValueError("time does not go back")
        self._session.advance(seconds)
