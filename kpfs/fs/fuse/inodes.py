# SPDX-License-Identifier: GPL-2.0-or-later
"""The numbers by which the host's Linux asks for entries of the tree."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Hashable

from kpfs.base.errors import KernelError
from kpfs.base.fuse_wire import ROOT
from kpfs.base.typed import Generic
from kpfs.fs.tree import E


class Inode(Generic[E]):
    """An entry that Linux has looked up, until it forgets it."""

    __slots__ = ("entry", "lookups", "number", "open_files", "shrunk", "truncated")

    def __init__(self, number: int, entry: E) -> None:
        self.number = number
        self.entry = entry
        self.lookups = 0
        self.open_files: set[int] = set()
        self.shrunk = False  # Linux may believe that the size is what stat() shows
        self.truncated = False  # it may believe so again at any time


class Inodes(Generic[E]):
    """All inodes of a mount.  Any thread may ask."""

    def __init__(self, root: E) -> None:
        self._guard = threading.Lock()
        self._last = ROOT
        top = Inode(ROOT, root)
        self._by_number = {ROOT: top}
        self._by_key: dict[Hashable, Inode[E]] = {root.key: top}

    def __getitem__(self, number: int) -> Inode[E]:
        inode = self._by_number.get(number)
        if inode is None:
            raise KernelError(errno.ESTALE, f"inode {number} is not known")
        return inode

    def __len__(self) -> int:
        return len(self._by_number)

    def known(self, key: Hashable) -> Inode[E] | None:
        """Return the inode of a key, if there is one."""
        return self._by_key.get(key)

    def look_up(self, entry: E) -> Inode[E]:
        """Return the inode of an entry, which Linux knows once more."""
        with self._guard:
            inode = self._by_key.get(entry.key)
            if inode is None:
                self._last += 1
                inode = Inode(self._last, entry)
                self._by_number[inode.number] = self._by_key[entry.key] = inode
            inode.lookups += 1
        return inode

    def renew(self, renew: Callable[[E], object]) -> None:
        """Renew all entries, whose keys become others; they keep their numbers."""
        with self._guard:
            for inode in self._by_number.values():
                renew(inode.entry)
            self._by_key = {
                inode.entry.key: inode for inode in self._by_number.values()
            }

    def forget(self, number: int, lookups: int) -> bool:
        """Note that Linux has dropped so many of its references to an inode.

        Return True if it has none any more: the number is nobody's from now on.
        """
        with self._guard:
            inode = self._by_number.get(number)
            if inode is None or number == ROOT:
                return False
            inode.lookups -= lookups
            if inode.lookups > 0:
                return False
            del self._by_number[number]
            self._by_key.pop(inode.entry.key, None)
            return True
