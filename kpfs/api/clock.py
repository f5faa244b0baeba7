# SPDX-License-Identifier: GPL-2.0-or-later
"""The clock of an emulated kernel."""

from __future__ import annotations

from typing import Protocol


class Timed(Protocol):
    """The part of a session that a Clock uses."""

    @property
    def quiet(self) -> bool: ...

    def now(self) -> float: ...

    def advance(self, seconds: float) -> None: ...


class Clock:
    """The kernel's time: virtual if the kernel is quiet, else the host's."""

    def __init__(self, session: Timed) -> None:
        self._session = session

    def now(self) -> float:
        """Return the seconds since the kernel booted."""
        return self._session.now()

    def advance(self, seconds: float) -> None:
        """Let that many seconds pass at once, with all that is due in them.

        Timers run, probes that wait for optimization become jumps, sleeping tasks wake.
        ValueError: the kernel is not quiet, so its time is the host's.
        """
        if not self._session.quiet:
            raise ValueError("only the clock of a quiet kernel can be advanced")
        if seconds < 0:
            raise ValueError("time does not go back")
        self._session.advance(seconds)
