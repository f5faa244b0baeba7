# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel that has a command inside, for a debugger and for coverage."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from kpfs.backends.linux.coverage import LinuxCoverage
from kpfs.backends.linux.debugged import BoardDebugged
from kpfs.base.errors import KernelError, MemoryFault
from kpfs.base.lock import FairLock
from kpfs.gdb.debugged import Command
from kpfs.linux.memory.memory import LiveMemory
from kpfs.linux.memory.modules import LoadedModule, loaded_modules
from kpfs.linux.running.saved_kernel import SavedKernel

if TYPE_CHECKING:
    from kpfs.gdb.debugged import GoBack
    from kpfs.linux.board.board import Board
    from kpfs.linux.inside.mounted import PreparedKernel
    from kpfs.linux.memory.vmlinux import Vmlinux


class _Kernel:
    """Implements KernelOnBoard of debugged.py, and CoveredKernel of coverage.py."""

    def __init__(self, kernel: PreparedKernel) -> None:
        self._saved = saved = SavedKernel(kernel.folder)  # which keeps its file open
        self.machine = kernel.loop.machine
        self.meta, self.arch = saved.meta, saved.arch
        self.symbols, self.structures = saved.symbols, saved.structures
        self.memory = LiveMemory(self.machine.board)
        self._own: frozenset[int] = frozenset()  # modules for the host's files
        self._own = frozenset(module.address for module in self.modules())

    @property
    def vmlinux(self) -> Vmlinux:
        return self._saved.vmlinux

    def modules(self) -> Sequence[LoadedModule]:
        """Return the modules that were loaded since then."""
        try:
            loaded = loaded_modules(self.memory, self.symbols, self.structures)
        except (MemoryFault, KeyError, ValueError):
            return []
        return [module for module in loaded if module.address not in self._own]

    def follow_boards(self, follower: Callable[[Board], None]) -> None:
        """Do nothing: no other one takes over."""


class InsideDebugged(BoardDebugged):
    """Implements Debugged.  All calls are made in the kernel, and no machine follows.

    Whoever runs the kernel takes the lock and keeps it.
    """

    def __init__(self, kernel: PreparedKernel) -> None:
        super().__init__(_Kernel(kernel))
        self.lock = FairLock()

    def see_all(self, wanted: bool) -> None:
        """Do nothing."""

    def catch_up(self) -> None:
        """Do nothing."""

    def follow(self, replaced: Callable[[], None]) -> None:
        """Do nothing."""

    def keep(self) -> GoBack:
        raise KernelError(errno.EOPNOTSUPP, "the command inside uses the host's files")

    def commands(self) -> Mapping[str, Command]:
        """Return those that are refused at once, as something always runs."""

        def refuse() -> str:
            self.keep()
            return ""

        refused = Command("not with a command inside", refuse)
        return {"snapshot": refused, "restore": refused}


def coverage(kernel: PreparedKernel, *, of_kernel: bool) -> LinuxCoverage:
    """Record what is reached from now on; KernelError: this kernel cannot."""
    return LinuxCoverage(_Kernel(kernel), of_kernel=of_kernel)
