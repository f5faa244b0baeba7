# SPDX-License-Identifier: GPL-2.0-or-later
"""debug/: what modules have in /sys/kernel/debug, as the guest has it."""

from __future__ import annotations

import errno
import stat
from collections.abc import Iterable

from kpfs.backends.guest.files.guest_file import GuestDir, GuestServed
from kpfs.backends.guest.root.debugfs import DebugfsEntry
from kpfs.backends.guest.root.guest_kernel import GuestKernel
from kpfs.base.errors import KernelError
from kpfs.fs.node import Node


class DebugfsDir(GuestDir):
    """A directory: the root, or one that a module has made."""

    def __init__(self, kernel: GuestKernel, of: DebugfsEntry | None = None) -> None:
        self.of = of or kernel.debugfs.root
        super().__init__(kernel, self.of.mode)

    def entry(self, name: str) -> Node | None:
        return self.keep(name, self.of.children.get(name), self._node)

    def _node(self, entry: DebugfsEntry) -> Node:
        if entry.is_dir:
            return DebugfsDir(self.kernel, entry)
        return DebugfsFile(self.kernel, entry)

    def entries(self) -> Iterable[str]:
        return list(self.of.children)

    def type_of(self, name: str) -> int:
        entry = self.of.children.get(name)
        return stat.S_IFREG if entry is None else stat.S_IFMT(entry.mode)

    def count_directories(self) -> int:
        return sum(entry.is_dir for entry in self.of.children.values())


class DebugfsFile(GuestServed):
    """A file of a module: the guest's own code opens, reads and writes it."""

    def __init__(self, kernel: GuestKernel, entry: DebugfsEntry) -> None:
        super().__init__(kernel)
        self.mode = entry.mode

    def opened(self, flags: int) -> None:
        """Refuse: this is called only if the guest has no such file any more."""
        raise KernelError(errno.ENOENT, "the module has removed it")
