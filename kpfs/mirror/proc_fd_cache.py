# SPDX-License-Identifier: GPL-2.0-or-later
"""Keep files of /proc open, as walking a path from its root costs more than a read."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable

from kpfs.base import limits
from kpfs.base.typed import TypeVar

MOST = 64  # descriptors of each kind that are open at once
SHARE = 8  # part of a process's descriptors: there are four kinds

Key = TypeVar("Key", bound=Hashable)


class ProcFdCache(dict[Key, int]):
    """Descriptors of /proc files of one kind, opened when they are first asked for.

    OSError: there is no such file.  A file of /proc belongs to its process for ever:
    once that is gone nothing can be read from it, even if another process has the
    number by then.  A caller that reads nothing therefore forgets the file, and asks
    once more.
    Context: one thread at a time, but for forget().
    """

    def __init__(
        self, place: Callable[[Key], str], flags: int = os.O_RDONLY, most: int = MOST
    ) -> None:
        """most: how many may be open at once, if that is no more than their share."""
        super().__init__()
        self._place = place
        self._flags = flags | os.O_CLOEXEC
        self._most = min(most, (limits.limit("NOFILE") or MOST * SHARE) // SHARE)
        self._forgotten: list[int] = []

    def __missing__(self, key: Key) -> int:
        if len(self) >= self._most:
            oldest, *_ = self
            self.forget(oldest)
        self._close_forgotten()
        fd = self[key] = os.open(self._place(key), self._flags)
        return fd

    def forget(self, key: Key) -> None:
        """Close a file; it is opened anew when next asked for.  Context: any thread."""
        fd = self.pop(key, None)
        if fd is not None:  # a thread that reads it now goes on
            self._forgotten.append(fd)

    def _close_forgotten(self) -> None:
        while self._forgotten:
            os.close(self._forgotten.pop())

    def close(self) -> None:
        """Close all."""
        for key in list(self):
            self.forget(key)
        self._close_forgotten()
