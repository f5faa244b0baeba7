# SPDX-License-Identifier: GPL-2.0-or-later
"""Files of modules in debugfs: guest/src/fs/debugfs.c tells of each entry."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable

from kpfs.base import abi
from kpfs.base.errors import KernelError
from kpfs.base.typed import TYPE_CHECKING
from kpfs.base.units import NAME_MAX

if TYPE_CHECKING:
    from kpfs.guest.machine import Guest

_TOLD = abi.KpfsDebugfs.STRUCT


class DebugfsEntry:
    """A directory or a file of a module."""

    def __init__(self, name: str, mode: int, parent: DebugfsEntry | None) -> None:
        self.name = name
        self.mode = mode  # with its type
        self.parent = parent
        self.children: dict[str, DebugfsEntry] = {}  # oldest first

    @property
    def is_dir(self) -> bool:
        return stat.S_ISDIR(self.mode)


class DebugFs:
    """The tree of these entries.

    Context: control, but for looks at the entries, for which no lock is needed.
    Kernel: fs/debugfs/inode.c
    """

    def __init__(self, guest: Guest, show: Callable[[str, bool], None]) -> None:
        """show: told of each name that comes to the root, or (False) leaves it."""
        self._guest = guest
        self._show = show
        self.root = DebugfsEntry("", stat.S_IFDIR | 0o755, None)
        self._by_dentry: dict[int, DebugfsEntry] = {0: self.root}
        calls = abi.CTL_DEBUGFS_ADD, abi.CTL_DEBUGFS_REMOVE
        guest.control.register(calls, self.serve)

    def serve(self, number: int, first: int, _second: int) -> int:
        """See guest/include/kpfs/control.h."""
        if number == abi.CTL_DEBUGFS_ADD:
            self._add(first)
        else:
            self._remove(first)
        return 0

    def show(self) -> None:
        """Tell the listener of all of the root."""
        for name in self.root.children:
            self._show(name, True)

    def hide(self) -> None:
        """Tell no listener of it any more: the guest is gone."""
        for name in list(self.root.children):
            self._show(name, False)

    def _add(self, told: int) -> None:
        guest = self._guest
        dentry, parent_at, mode, name_at = _TOLD.unpack(guest.read(told, _TOLD.size))
        parent = self._by_dentry.get(parent_at)
        if parent is None:
            raise KernelError(errno.EINVAL, "its directory is not there")
        name = guest.read_cstring(name_at, NAME_MAX + 1).decode("latin-1")
        entry = DebugfsEntry(name, mode, parent)
        parent.children[name] = self._by_dentry[dentry] = entry
        if parent is self.root:
            self._show(name, True)

    def _remove(self, dentry: int) -> None:
        entry = self._by_dentry.get(dentry)
        if entry is None or entry.parent is None:
            return
        del self._by_dentry[dentry]
        entry.parent.children.pop(entry.name, None)
        if entry.parent is self.root:
            self._show(entry.name, False)


def shown_nowhere(_name: str, _there: bool) -> None:
    """Do nothing: nobody but the mount shows the names of the root."""


def links_in(folder: str, target: str) -> Callable[[str, bool], None]:
    """Return a function that shows names by links in a folder of the host."""

    def show(name: str, there: bool) -> None:
        with contextlib.suppress(OSError):  # a name that no file can have
            path = os.fsencode(folder) + b"/" + name.encode("latin-1")
            if there:
                os.symlink(os.fsencode(target) + b"/" + name.encode("latin-1"), path)
            else:
                os.unlink(path)

    return show
