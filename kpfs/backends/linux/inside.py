# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel that has a command inside, for a debugger."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kpfs.backends.linux.debugged import BoardDebugged
from kpfs.base.lock import FairLock
from kpfs.linux.memory.memory import LiveMemory
from kpfs.linux.running.saved_kernel import SavedKernel

if TYPE_CHECKING:
    from kpfs.backends.debugged import Command
    from kpfs.linux.inside.mounted import PreparedKernel


class _Kernel:
    """Implements kpfs.backends.linux.debugged.KernelOnBoard."""

    def __init__(self, kernel: PreparedKernel) -> None:
        self._saved = saved = SavedKernel(kernel.folder)  # which keeps its file open
        self.machine = kernel.loop.machine
        self.meta, self.arch = saved.meta, saved.arch
        self.symbols, self.structures = saved.symbols, saved.structures
        self.saved_memory = saved.memory
        self.memory = LiveMemory(self.machine.board)


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

    def commands(self) -> Mapping[str, Command]:
        return {}
