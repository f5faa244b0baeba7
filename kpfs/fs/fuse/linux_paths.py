# SPDX-License-Identifier: GPL-2.0-or-later
"""The paths of a mount over a real kernel that Linux knows by number."""

from __future__ import annotations

import errno
import threading

from kpfs.base.errors import KernelError
from kpfs.fs.fuse import proto


class Path:
    """A path that Linux has looked up, until it forgets it."""

    __slots__ = (
        "lasts",
        "lookups",
        "number",
        "open_files",
        "shrunk",
        "text",
        "truncated",
    )

    def __init__(self, number: int, text: str) -> None:
        self.number = number
        self.text = text
        self.lookups = 0
        self.lasts = False  # what it leads to is there as long as the mount
        self.open_files: set[int] = set()
        # what Linux believes of the size: see kpfs.fs.fuse.inodes.Inode
        self.shrunk = False
        self.truncated = False


class Paths:
    """All of them.  Any thread may ask."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._last = proto.ROOT
        root = Path(proto.ROOT, "")
        root.lasts = True
        self._by_number = {proto.ROOT: root}
        self._by_text = {"": root}

    def __getitem__(self, number: int) -> Path:
        path = self._by_number.get(number)
        if path is None:
            raise KernelError(errno.ESTALE, f"inode {number} is not known")
        return path

    def known(self, text: str) -> Path:
        """The path of that text, which Linux knows."""
        return self._by_text[text]

    def look_up(self, text: str) -> Path:
        """The path of that text, which Linux knows once more."""
        with self._guard:
            path = self._by_text.get(text)
            if path is None:
                self._last += 1
                path = Path(self._last, text)
                self._by_number[path.number] = self._by_text[text] = path
            path.lookups += 1
            return path

    def forget(self, number: int, lookups: int) -> None:
        """Linux knows it so many times less."""
        with self._guard:
            path = self._by_number.get(number)
            if path is None or number == proto.ROOT:
                return
            path.lookups -= lookups
            if path.lookups <= 0:
                del self._by_number[number]
                del self._by_text[path.text]
