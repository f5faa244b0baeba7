# SPDX-License-Identifier: GPL-2.0-or-later
"""The bases of files and directories that are about the guest kernel."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable

from kpfs.backends.guest.root.guest_kernel import GuestKernel
from kpfs.fs.node import Dir, DynDir, File, Node, populate

DIR_MODE = stat.S_IFDIR | 0o750  # mode of directories in tracefs

# Path below the directory that the table is of, mode, class.  A directory stands before
# what is in it; the mode of a DynDir's entries is its own.
Row = tuple[str, int, Callable[[GuestKernel], Node]]


class GuestFile(File):
    """A file that is made of the guest's state."""

    def __init__(self, kernel: GuestKernel) -> None:
        super().__init__()
        self.kernel = kernel


class GuestServed(GuestFile):
    """A file that the guest's own code serves, which knows its position."""


class ShowsTasks(GuestFile):
    """A file that shows which tasks there are, if it follows their forks."""


class GuestDir(DynDir):
    """A directory whose further entries are made of the guest's state."""

    def __init__(self, kernel: GuestKernel, mode: int = 0) -> None:
        super().__init__(mode)
        self.kernel = kernel


def populate_configured(
    root: Dir, rows: Iterable[Row], kernel: GuestKernel, prefix: str = ""
) -> None:
    """Make what a table says below root, and leave out what is not configured.

    prefix: where root lies in the mount.
    """
    dirs = populate(root, rows, kernel)
    for path in kernel.config.absent():
        if path.startswith(prefix):
            parent, _, name = path.removeprefix(prefix).rpartition("/")
            dirs[parent].children.pop(name, None)
