# SPDX-License-Identifier: GPL-2.0-or-later
"""Files of /proc that are held open, as a path from its root costs more than a read."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

MOST = 64  # of each kind that are open at once

Key = TypeVar("Key", bound=Hashable)


class Held(Generic[Key]):
    """Files of one kind, by what they are about, opened when they are first asked for.

    A file of /proc is that of its process for ever: once that is gone nothing can be
    had from it, even if another process has the number by then.  Who gets nothing
    forgets it therefore, and asks once more.
    Context: one thread at a time, but for forget().
    """

    def __init__(self, place: Callable[[Key], str], flags: int = os.O_RDONLY) -> None:
        self._place = place
        self._flags = flags | os.O_CLOEXEC
        self._open: dict[Key, int] = {}
        self._stale: set[Key] = set()

    def __getitem__(self, key: Key) -> int:
        """The descriptor; OSError: there is no such file."""
        if self._stale:
            self._close_stale()
        fd = self._open.get(key)
        if fd is None:
            if len(self._open) >= MOST:
                self._close(next(iter(self._open)))
            fd = self._open[key] = os.open(self._place(key), self._flags)
        return fd

    def forget(self, key: Key) -> None:
        """Have it opened anew when it is next asked for.  Context: any thread."""
        if key in self._open:  # who reads it now goes on
            self._stale.add(key)

    def _close_stale(self) -> None:
        while self._stale:
            self._close(self._stale.pop())

    def _close(self, key: Key) -> None:
        fd = self._open.pop(key, -1)
        if fd >= 0:
            os.close(fd)

    def close(self) -> None:
        """Close all."""
        for key in list(self._open):
            self._close(key)
